# One end of a context by MIT's library, driven by lines of hexadecimal words.
import sys
import gssapi

usage = sys.argv[1]
if usage == "initiate":
    service = gssapi.Name("nfs@localhost", gssapi.NameType.hostbased_service)
    flags = gssapi.RequirementFlag.mutual_authentication
    context = gssapi.SecurityContext(name=service, usage=usage, flags=flags, mech=gssapi.MechType.kerberos)
else:
    context = gssapi.SecurityContext(creds=gssapi.Credentials(usage=usage), usage=usage)

for line in sys.stdin:
    command, *words = line.split()
    args = [bytes.fromhex(w.lstrip("-")) for w in words]
    out = b""
    try:
        if command == "step":
            out = context.step(*args) or b""
        elif command == "wrap":
            out = context.wrap(args[0], True).message
        elif command == "wrapclear":
            out = context.wrap(args[0], False).message
        elif command == "unwrap":
            result = context.unwrap(args[0])
            out = (b"\1" if result.encrypted else b"\0") + result.message
        elif command == "mic":
            out = context.get_signature(args[0])
        elif command == "verify":
            context.verify_signature(*args)
        elif command == "peer":
            out = str(context.initiator_name if usage == "accept" else context.target_name).encode()
        print("ok", out.hex(), flush=True)
    except Exception as e:
        print("error", repr(e).encode().hex(), flush=True)
