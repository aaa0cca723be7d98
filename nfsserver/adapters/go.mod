module github.com/nfsrdma/nfsrdma/nfsserver/adapters

go 1.26.0

require github.com/nfsrdma/nfsrdma v0.0.0

require (
	github.com/google/renameio/v2 v2.0.2 // indirect
	github.com/rasky/go-xdr v0.0.0-20170124162913-1a41d1a06c93 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/nfsrdma/nfsrdma => ../..
