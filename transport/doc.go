// What the package is, and the life of a call.

// Package transport is ONC RPC version 2 (RFC 5531): it serves tables of
// procedures, and calls those of others, over TCP with record marking and over
// RPC-over-RDMA (RFC 8166) alike. Use it to serve or call an RPC program of your own.
//
//	server := transport.NewServer(transport.ServerConfig{}, &transport.Program{
//		Name: "BLOB", Number: number, Version: version,
//		Procs: []transport.Procedure{
//			0: {Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},
//			1: {Name: "FETCH", Idempotent: true, Run: fetch},
//		},
//	})
//	device := iwarp.Open(rnic.DeviceConfig{})
//	rdma, err := device.Listen("tcp", "127.0.0.1:0")
//	if err != nil {
//		log.Fatal(err)
//	}
//	go server.ServeRDMA(device, rdma)
//
// A client has DialRDMA and DialTCP; Client.Call makes a call. The examples show both ends, and
// test/examples/rpc of this module is a whole program.
//
// What a peer can make a Server hold is bounded: calls of a connection by Workers
// (TCP is read no further) or its credits (RDMA), bytes of large arguments and
// results by budgets, records by size and number of fragments, half records and
// unread replies by time, connections by number.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package transport

// # The life of an inbound call
//
// A message comes in on the receive loop of its connection: a record that has
// been joined from its fragments (record.go, server_tcp.go), or a Request whose
// Read chunks have been pulled (server_rdma.go). A Call from the pool takes it.
// The dispatcher reads the RPC header, the credential and the verifier, finds
// the procedure and asks the program whether it believes the caller (dispatch.go,
// auth.go): whose the peer's socket is, where it is one of this machine, the
// kernel said when the connection came (owner.go). What is wrong so far is
// answered on the spot. A procedure that is not idempotent passes the duplicate request
// cache (drc.go), and one that MUST NOT run beside a copy of itself the table of those
// that run (running.go). Inline procedures then run where they are; the others get a
// worker, or wait for one at the gate of their connection (gate.go, workers.go).
// The procedure decodes its arguments, asks Call.ArgsErr, does its work and
// encodes its results; large ones it only points at.
//
// The reply goes to the connection. Over TCP whoever has a reply writes it, and
// those of others that have become ready meanwhile, in one gather list
// (gather.go); the receive loop keeps the replies of its inline calls until it
// would wait for the peer. Over RDMA items leave by RDMA Write. The arguments,
// the buffers of Call.Buffer and the Call are released when the reply has left.
//
// # The life of an outbound call
//
// Client.Call takes an XID, which the call keeps through all attempts, and a
// connection, which is made if there is none. Over TCP the caller writes its
// call, and those of others that wait; one goroutine reads the replies. Over
// RDMA rpcrdma does both. The reply is decoded by the caller's goroutine. When
// the connection ends, or is silent for too long, it is given up and the call
// goes again over a new one; that a call is done once all the same is what the
// server's duplicate request cache is for.
