"""Names whose code is known to give the same for the same arguments, or not to."""

PURE_MODULES = frozenset(
    """__future__ abc array ast base64 binascii bisect builtins collections contextlib copy csv dataclasses decimal
    difflib enum fractions functools hashlib heapq html itertools json keyword math numbers operator re reprlib
    statistics string struct sre_compile sre_constants sre_parse textwrap types typing typing_extensions unicodedata
    warnings zlib""".split()  # noqa: SIM905
)
"""Modules of the standard library whose functions give the same for the same arguments (and ``warnings``)."""

PURE_SUBMODULES = frozenset({"collections.abc", "json.decoder", "json.encoder", "urllib.parse", "html.entities"})

PURE_NUMPY = frozenset(
    """False_ True_ abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis arange arccos
    arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argpartition argsort argwhere around array
    array_equal array_equiv array_split asarray ascontiguousarray asfortranarray asin asinh astype atan atan2 atanh
    atleast_1d atleast_2d atleast_3d average base_repr binary_repr bincount bitwise_and bitwise_count bitwise_invert
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor block bool bool_ broadcast_arrays
    broadcast_shapes broadcast_to byte bytes_ can_cast cbrt cdouble ceil choose clip clongdouble column_stack
    common_type complex128 complex64 complexfloating compress concat concatenate conj conjugate convolve copy
    copysign corrcoef correlate cos cosh count_nonzero cov cross csingle cumprod cumsum deg2rad degrees delete diag
    diag_indices diag_indices_from diagflat diagonal diff digitize divide divmod dot double dsplit dstack dtype e
    ediff1d einsum equal errstate euler_gamma exp exp2 expand_dims expm1 extract eye fabs finfo fix flatnonzero flip
    fliplr flipud float16 float32 float64 float_power floating floor floor_divide fmax fmin fmod frexp frombuffer
    fromiter fromstring full full_like gcd generic geomspace gradient greater greater_equal half heaviside histogram
    histogram2d histogram_bin_edges histogramdd hsplit hstack hypot identity iinfo imag index_exp indices inexact inf
    inner insert int16 int32 int64 int8 int_ intc integer interp intersect1d intp invert isclose iscomplex
    iscomplexobj isdtype isfinite isfortran isin isinf isnan isneginf isposinf isreal isrealobj isscalar issubdtype
    iterable ix_ kron lcm ldexp left_shift less less_equal lexsort lib.stride_tricks.sliding_window_view linalg.norm
    linspace little_endian log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor
    logspace long longdouble longlong mask_indices matmul matrix_transpose max maximum mean median meshgrid min
    min_scalar_type minimum mintypecode mod modf moveaxis multiply nan nan_to_num nanargmax nanargmin nancumprod
    nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndarray
    ndenumerate ndim ndindex negative newaxis nextafter nonzero not_equal number ones ones_like outer packbits pad
    partition percentile permute_dims pi positive pow power prod promote_types ptp quantile rad2deg radians ravel
    ravel_multi_index real real_if_close reciprocal remainder repeat reshape resize result_type right_shift rint roll
    rollaxis rot90 round s_ searchsorted select setdiff1d setxor1d shape short sign signbit signedinteger sin sinc
    single sinh size sort sort_complex spacing split sqrt square squeeze stack std str_ subtract sum swapaxes take
    take_along_axis tan tanh tensordot tile trace transpose trapezoid tri tril tril_indices tril_indices_from
    trim_zeros triu triu_indices triu_indices_from true_divide trunc typename ubyte uint uint16 uint32 uint64 uint8
    uintc uintp ulong ulonglong union1d unique unique_all unique_counts unique_inverse unique_values unpackbits
    unravel_index unsignedinteger unwrap ushort vander var vdot vecdot vectorize void vsplit vstack where zeros
    zeros_like""".split()  # noqa: SIM905
)
"""Names of NumPy that give the same for the same arguments, with the same release of it: no files, no clock, no
settings of the process, no random numbers, no memory that was not written (but for ``ndarray``, which code asks
``isinstance`` for); and nothing that writes into its arguments."""

IMPURE_BUILTINS = frozenset(
    {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "hash", "id", "input", "locals", "open"}
)
"""Builtins that read what is outside, or look up names that can't be followed."""

NO_BEHAVIOUR = frozenset(
    """__abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__ __dataclass_fields__
    __dataclass_params__ __dict__ __doc__ __firstlineno__ __module__ __orig_bases__ __parameters__ __qualname__
    __slotnames__ __static_attributes__ __type_params__ __weakref__ _abc_impl _is_protocol _is_runtime_protocol
    __protocol_attrs__ __non_callable_proto_members__""".split()  # noqa: SIM905
)
"""Attributes of classes that are no part of how their objects behave."""
