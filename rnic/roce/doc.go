// What the provider is, who does what in it, and its locks.

// Package roce is the provider of rnic that speaks RoCEv2: the reliable and unreliable connections
// and the datagrams of InfiniBand over UDP port 4791 (IBA volume 1, chapter 9, annex A17). The peer
// is another Device, Linux rxe, or a RoCE adapter. A datagram is sent like this:
//
//	dev := roce.Open(rnic.DeviceConfig{})
//	cq := dev.NewCQ(16)
//	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{Service: rnic.UD, SendCQ: cq, RecvCQ: cq, SQDepth: 8})
//	if err != nil {
//		log.Fatal(err)
//	}
//	id, err := roce.BindFor(qp, peer.Addr, qkey)
//	if err != nil {
//		log.Fatal(err)
//	}
//	if err := roce.ConnectOutOfBand(qp, roce.OutOfBand{}); err != nil {
//		log.Fatal(err)
//	}
//	to := &rnic.AddressHandle{Addr: peer.Addr, QPN: peer.QPN, QKey: qkey}
//	text := [][]byte{[]byte("a datagram")}
//	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, AH: to, SGL: text}); err != nil {
//		log.Fatal(err)
//	}
//
// # How QPs meet
//
// Connect and Listen use the connection manager, as rdma_cm does: the port of an address like
// "host:20049" is part of a service ID, and nothing listens on it in the sense of UDP. Bind and
// ConnectOutOfBand do without, for programs that exchange their QPs in another way, and for UC
// and UD. All QPs of a process that are bound to an address share its UDP port 4791. Another
// process cannot have that port as well.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package roce

// # Who does what
//
// The protocol is package core, connection management is package cm, and neither does I/O. A port
// joins them to the socket of one address; all QPs of the process that are bound to the address
// share it, for nobody else can have UDP port 4791 there. A port has two goroutines, however many
// QPs it has, and one receive loop more for each multicast group:
//
//	receive loop    takes a batch of packets, has the cores do them, runs the handlers of the QPs that they were for, and
//	                sends what came of that: acknowledges, data of Reads, and what the handlers posted, in one batch. It looks for
//	                more for some time before it sleeps, unless somebody whom it has woken needs the processor. While there are many
//	                bytes it takes the processor from no other thread when it is woken (package udp)
//	service loop    sleeps. It keeps the time (timers.go), ends QPs, runs handlers that nobody else can run, and
//	                waits for room in the socket
//
// Who posts work transmits it himself, without ever waiting, if nobody does already (transmit.go).
// QPs take turns, some packets each, so that none starves.
//
// # The end
//
// Any error of the core ends the QP, as do Abort, Disconnect and the peer's DREQ. The core flushes
// the sends at once; the service loop does the rest (endpoint.finish). A peer that is silent is
// asked after a while whether it is there, by a Write of no bytes.
//
// # Locks
//
// spare.mu, then control.mu (the CM, and what its events do), then endpoint.mu, then those of core
// and of rnic. ports.mu comes after control.mu, groups.mu after endpoint.mu. transmitter.mu,
// timers.mu and port.mu are taken one at a time, last of all. No handler runs under a lock but
// port.receiving: that comes before all others, and only receive loops take it, so that one of them
// has packets in hand at a time.
