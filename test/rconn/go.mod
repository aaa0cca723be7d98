module github.com/nfsrdma/nfsrdma/test/rconn

go 1.26.0

require (
	github.com/nfsrdma/nfsrdma v0.0.0
	github.com/valkey-io/valkey-go v1.0.79
	golang.org/x/net v0.59.0
	google.golang.org/grpc v1.80.0
)

require (
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260120221211-b8f7ae30c516 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/nfsrdma/nfsrdma => ../..
