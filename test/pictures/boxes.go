// Box drawings: layers, the choice of a transport, a failing server, and trust boundaries.

package main

// layers draws the stack of packages with their standards.
func layers() *drawing {
	d := newDrawing("layers", "The layers of nfsrdma", 860, 488)
	d.text(20, 32, "start", head, "ink", d.title)
	const top, step, high = 50.0, 62.0, 46.0
	row := func(i int) float64 { return top + step*float64(i) }
	std := func(i int, lines ...string) {
		y := row(i) + high/2 + 5 - 8.5*float64(len(lines)-1)
		d.lines(600, y, "start", small, "dim", lines...)
	}
	d.box(area{20, row(0), 265, high}, "panel", "dim", "nfsrdma", "commands, mount through FUSE")
	d.box(area{305, row(0), 265, high}, "panel", "dim", "nfsrdmad", "exports, metrics, control")
	std(0, "programs: flags, messages, signals")
	d.box(area{20, row(1), 265, high}, "shade", "rdma", "nfsclient", "files, directories, locks")
	d.box(area{305, row(1), 265, high}, "shade", "rdma", "nfsserver", "osfs, memfs, JuiceFS, your own tree")
	std(1, "NFSv3 and MOUNT (RFC 1813),", "NFSACL, NLM 4")
	d.box(area{20, row(2), 550, high}, "shade", "rdma", "transport", "calls and procedures, the same over both ways")
	std(2, "ONC RPC (RFC 5531), XDR (RFC 4506)")
	d.box(area{20, row(3), 400, high}, "shade", "rdma", "rpcrdma", "credits, chunks, registration")
	std(3, "RPC-over-RDMA 1 (RFC 8166, 8797,", "8267)")
	d.box(area{20, row(4), 400, high}, "shade", "rdma", "rnic", "verbs: QP, CQ, MR, Send, Write, Read")
	std(4, "verbs (RFC 5040, IBA volume 1)")
	d.box(area{20, row(5), 190, high}, "shade", "rdma", "rnic/iwarp", "RDMAP, DDP, MPA, CRC")
	d.box(area{230, row(5), 190, high}, "shade", "rdma", "rnic/roce", "RC, UC, UD, ICRC, CM")
	std(5, "iWARP (RFC 5040, 5041, 5044, 6581)", "and RoCEv2")
	d.box(area{20, row(6), 190, high}, "panel", "dim", "TCP", "port 20049")
	d.box(area{230, row(6), 190, high}, "panel", "dim", "UDP", "port 4791")
	d.box(area{440, row(6), 130, high}, "panel", "dim", "TCP", "port 2049")
	std(6, "sockets of the kernel: no adapter,", "no module")
	down := func(x float64, from, to int) { d.arrow(x, row(from)+high, x, row(to), "dim", 1.5) }
	for _, x := range []float64{152, 437} {
		down(x, 0, 1)
		down(x, 1, 2)
	}
	down(220, 2, 3)
	down(505, 2, 6)
	down(220, 3, 4)
	for _, x := range []float64{115, 325} {
		down(x, 4, 5)
		down(x, 5, 6)
	}
	return d
}

// transports draws the choice between RDMA, RoCE and TCP.
func transports() *drawing {
	d := newDrawing("transports", "iWARP, RoCE or TCP?", 860, 470)
	d.text(20, 32, "start", head, "ink", d.title)
	ask := func(a area, lines ...string) area { d.box(a, "panel", "dim", lines...); return a }
	answer := func(a area, color string, lines ...string) { d.box(a, "card", color, lines...) }
	// down draws a line from a question down to the next box, labeled with an answer.
	down := func(from area, x float64, to float64, word string) {
		y := from.bottom()
		d.line(x, y, x, y+1, "dim", 1.5, "")
		d.arrow(x, y, x, to, "dim", 1.5)
		if word != "" {
			d.text(x+8, (y+to)/2+4, "start", strong, "ink", word)
		}
	}
	start := ask(area{290, 52, 280, 40}, "Which client?")
	ours := ask(area{20, 150, 380, 54}, "Mostly large files written?", "WRITE over TCP is faster, and has no CRCs")
	down(start, 330, 150, "nfsrdma")
	linux := ask(area{480, 150, 360, 54}, "Is RDMA needed?", "for many small calls, or to test it")
	down(start, 530, 150, "Linux's own")

	roce := ask(area{150, 262, 250, 54}, "Only RoCE at the server?", "Linux with rxe, or an adapter")
	down(ours, 275, 262, "no")
	siw := ask(area{600, 262, 240, 54}, "Is there the driver siw?", "modinfo siw")
	down(linux, 720, 262, "yes")

	answer(area{20, 378, 110, 66}, "tcp", "TCP", "-o proto=tcp")
	down(ours, 75, 378, "yes")
	answer(area{150, 378, 115, 66}, "rdma", "iWARP", "the default")
	down(roce, 205, 378, "no")
	answer(area{285, 378, 115, 66}, "good", "RoCE", "UDP port 4791")
	down(roce, 345, 378, "yes")
	answer(area{480, 378, 100, 66}, "tcp", "TCP", "proto=tcp")
	down(linux, 530, 378, "no")
	answer(area{600, 378, 110, 66}, "rdma", "iWARP", "driver siw")
	down(siw, 655, 378, "yes")
	answer(area{730, 378, 110, 66}, "good", "RoCE", "driver rxe")
	down(siw, 785, 378, "no")
	return d
}

// failover draws a mount of several servers, one of which fails.
func failover() *drawing {
	d := newDrawing("failover", "One of three servers fails", 860, 388)
	d.text(20, 32, "start", head, "ink", d.title)
	mount := area{20, 110, 190, 84}
	d.box(mount, "panel", "ink", "nfsrdma mount", "A,B,C:/vol /mnt", "picks one server at random")
	a, b, c := area{340, 56, 170, 54}, area{340, 126, 170, 54}, area{340, 196, 170, 54}
	d.box(a, "card", "bad", "server A", "killed, or cut off")
	d.box(b, "shade", "rdma", "server B", "the same handles")
	d.box(c, "panel", "dim", "server C")
	d.line(mount.right(), 136, a.x, a.midY(), "bad", 1.8, "5 4")
	d.text(226, 86, "start", small, "bad", "1  no answer")
	d.arrow(mount.right(), mount.midY()+1, b.x, b.midY(), "rdma", 3)
	d.text(224, 178, "start", small, "ink", "2  the calls")
	d.text(224, 194, "start", small, "ink", "again")
	volume := area{660, 56, 180, 194}
	d.box(volume, "panel", "ink", "one volume", "metadata service", "object storage")
	for _, s := range []area{b, c} {
		d.arrow(s.right(), s.midY(), volume.x, s.midY(), "dim", 1.8)
	}
	d.line(a.right(), a.midY(), volume.x, a.midY(), "dim", 1.2, "5 4")
	d.lines(20, 290, "start", normal, "ink",
		"1  A refuses at once if its process died; a silent machine is given up after timeo.",
		"2  Calls without a reply are sent to B, then to C, until one answers.",
		"3  Data that was written and not committed is written again: fsync and close hold.",
		"4  Locks that are free at B are taken there; one line of the log says so.",
		"5  The mount stays with B, also when A is back.")
	return d
}

// trust draws the path of a call, and the data distrusted at each boundary.
func trust() *drawing {
	d := newDrawing("trust", "Boundaries of trust", 860, 396)
	d.text(20, 32, "start", head, "ink", d.title)
	zones := []struct {
		x, w  float64
		color string
		name  string
	}{{20, 232, "panel", "the client's machine"}, {272, 150, "card", "the network"}, {442, 398, "panel", "the server's machine"}}
	for _, z := range zones {
		d.add(`<rect class="f-%s s-dim" x="%g" y="50" width="%g" height="196" rx="8" stroke-width="1.2" stroke-dasharray="6 4"/>`, z.color, z.x, z.w)
		d.text(z.x+z.w/2, 72, "middle", strong, "ink", z.name)
	}
	program, client := area{46, 92, 180, 44}, area{46, 184, 180, 44}
	d.box(program, "card", "dim", "programs", "each with its user")
	d.box(client, "shade", "rdma", "mount, or Linux", "names a user in calls")
	d.arrow(program.midX(), program.bottom(), client.midX(), client.y, "dim", 1.8)
	d.text(program.midX()+12, 165, "start", strong, "ink", "1")
	d.lines(347, 106, "middle", small, "dim", "not encrypted,", "not signed: trust it,", "or put WireGuard", "or IPsec below it")
	server, kernel, files := area{462, 184, 180, 44}, area{682, 184, 140, 44}, area{682, 92, 140, 44}
	d.box(server, "shade", "rdma", "nfsrdmad", "checks all input")
	d.box(kernel, "card", "dim", "kernel", "checks rights")
	d.box(files, "card", "dim", "exported files", "ACLs, quotas")
	d.arrow(client.right(), client.midY(), server.x, server.midY(), "rdma", 2.5)
	d.text(262, 198, "middle", strong, "ink", "2")
	d.text(432, 198, "middle", strong, "ink", "3")
	d.arrow(server.right(), server.midY(), kernel.x, kernel.midY(), "dim", 1.8)
	d.text(662, 198, "middle", strong, "ink", "4")
	d.arrow(kernel.midX(), kernel.y, files.midX(), files.bottom(), "dim", 1.8)
	d.lines(20, 276, "start", normal, "ink",
		"1  The kernel of the client says which user calls. The mount passes that on.",
		"2  AUTH_SYS proves nothing: who writes packets here can name any user.",
		"3  All input is hostile: lengths, chunks, STags and handles (with a MAC) are checked,",
		"    hosts by the exports file, uid 0 becomes nobody. For users of this machine the",
		"    kernel names the owner of the socket, and only that user is believed.",
		"4  The server acts as the caller, so the kernel decides, as for a program of that user.")
	return d
}
