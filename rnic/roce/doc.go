// Overview: the goroutines, how a QP ends, and lock order.

// Package roce is rnic's RoCEv2 provider: InfiniBand's reliable and unreliable connections and
// datagrams over UDP port 4791 (IBA volume 1, chapter 9, annex A17). The peer is another Device,
// Linux rxe, or a RoCE adapter. To send a datagram:
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
// # Connecting QPs
//
// Connect and Listen use the connection manager, like rdma_cm: the port in an address like
// "host:20049" is part of a service ID, and no UDP socket listens on it. Bind and
// ConnectOutOfBand work without it, for programs that exchange their QPs in another way, and for
// UC and UD. All QPs of a process bound to an address share its UDP port 4791. No other process
// can use that port then.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package roce

// # Goroutines
//
// Package core implements the protocol and package cm connection management; neither does I/O. A
// port joins them to the socket of one address. All QPs of the process bound to that address
// share it, because UDP port 4791 can be opened there only once. A port has two goroutines for
// all its QPs, plus one receive loop for each multicast group:
//
//	receive loop    takes a batch of packets, passes them to the cores, runs the QPs' handlers,
//	                and sends the results in one batch: acknowledges, Read data, and the work
//	                posted by handlers. It spins for a while before it blocks, unless a goroutine
//	                that it woke needs the processor. At high byte rates a wakeup lets it preempt
//	                no other thread (package udp)
//	service loop    mostly sleeps. It runs timers (timers.go), ends QPs, runs handlers that no
//	                other goroutine can run, and waits for room in the socket
//
// The posting goroutine transmits the work itself, without blocking, unless another is already
// transmitting (transmit.go). QPs alternate after some packets each, so none starves.
//
// # The end
//
// An error in the core ends the QP, as do Abort, Disconnect and the peer's DREQ. The core flushes
// sends at once; the service loop does the rest (endpoint.finish). A silent peer is probed after
// a while by a Write without data.
//
// # Locks
//
// Lock order: spare.mu, control.mu (the CM and its event handlers), endpoint.mu, then the locks
// of core and rnic. ports.mu comes after control.mu, groups.mu after endpoint.mu. transmitter.mu,
// timers.mu and port.mu come last, one at a time. Handlers run under no lock, but with the token of
// port.receiving. That comes before all locks; only receive loops take it, so that one at a time
// handles packets.
