// Overview: a call's way through server and client.

// Package transport implements ONC RPC version 2 (RFC 5531): servers for tables of procedures,
// and clients, over TCP with record marking, over UDP, and over RPC-over-RDMA (RFC 8166). Use it
// for your own RPC programs.
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
// Clients come from DialRDMA, DialTCP and DialUDP; Client.Call makes a call. The examples show both
// ends, and test/examples/rpc in this module is a complete program.
//
// All resources that a peer can occupy in a Server are bounded: a connection's calls by Workers
// (TCP stops reading) or credits (RDMA), bytes of large arguments and results by budgets, records
// by size and number of fragments, incomplete records and unread replies by time, connections by
// number.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package transport

// # Inbound calls
//
// A message arrives on the goroutine that receives for its connection, as a record of fragments
// (record.go, server_tcp.go), or as a Request with its Read chunks pulled (server_rdma.go). A
// pooled Call takes it. The dispatcher reads the RPC header, credential and verifier, finds the
// procedure and lets the program check the caller (dispatch.go). For a peer on this
// machine, the kernel named the socket's owner when the connection came (owner.go). Errors up to
// here are answered immediately. A non-idempotent procedure passes the duplicate request cache
// (drc.go). A procedure that MUST NOT run beside a copy of itself passes the table of running
// calls (running.go). Inline procedures then run where they are; when one becomes busy, another
// goroutine receives (receiver.go). Others get a worker, or wait for one (workers.go, lanes.go).
// The procedure decodes its arguments, checks Call.ArgsErr, does its work and encodes its results;
// large ones are only referenced.
//
// The reply goes to the connection. Over TCP a goroutine with a reply writes it, together with
// other replies that are ready, in one gather list (gather.go). The goroutine that receives keeps
// the replies of its calls until it would block. Over RDMA items leave by RDMA Write. After the
// reply has left, arguments, buffers from Call.Buffer and the Call are released.
//
// # Outbound calls
//
// Client.Call takes an XID, which the call keeps through all attempts, and a connection, made if
// there is none. Over TCP the caller writes its call and other waiting ones; one goroutine reads
// the replies. Over RDMA package rpcrdma does both. The caller's goroutine decodes the reply. If
// the connection ends, or is silent for too long, the client reconnects and retransmits. The
// server's duplicate request cache ensures that the call is still executed once. Over UDP the
// client sends a call again from the same socket until a reply comes (client_udp.go).
