"""Kernel plans: frozen descriptions of what each kernel computes and how, ready to be rendered.

One file for each family: `elementwise`, `rows`, `product` (with its `product_forms`,
`split_product`, `matrix_view` and `epilogues`), `convolution` and `library`. `base` has what all
kernels state, `stores` and `row_program` what several families are made of, `module` the plan of
the whole module.
"""
