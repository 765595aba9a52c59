"""The last Python before C++ of every call, by what runs on the server: names in `rpc.api`."""

SENDERS = {
    "_invoke_rpc_python_udf": "python",
    "_invoke_remote_python_udf": "python",
    "_invoke_rpc_builtin": "builtin",
    "_invoke_remote_builtin": "builtin",
    "_invoke_rpc_torchscript": "script",
    "_invoke_remote_torchscript": "script",
}
