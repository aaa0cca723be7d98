// A READ and a WRITE on the wire, as ladder diagrams: the client's line, the server's line, and the
// messages between them.

package main

// A rung is a message, or a note beside a line.
type rung struct {
	fromServer bool
	data       bool // the bulk of the data
	words      string
	below      string
	client     []string // notes beside the client's line
	server     []string // notes beside the server's line
}

const (
	ladderWidth = 860.0
	clientLine  = 235.0
	serverLine  = 625.0
)

func ladder(name, title string, rungs []rung) *drawing {
	height := 96.0
	for _, r := range rungs {
		height += r.height()
	}
	d := newDrawing(name, title, ladderWidth, height)
	d.text(20, 32, "start", head, "ink", title)
	d.box(area{clientLine - 60, 50, 120, 30}, "panel", "ink", "client")
	d.box(area{serverLine - 60, 50, 120, 30}, "panel", "ink", "server")
	d.line(clientLine, 80, clientLine, height-14, "ink", 1.5, "")
	d.line(serverLine, 80, serverLine, height-14, "ink", 1.5, "")
	y := 86.0
	for _, r := range rungs {
		d.lines(clientLine-14, y+20, "end", small, "ink", r.client...)
		d.lines(serverLine+14, y+20, "start", small, "ink", r.server...)
		if r.words != "" {
			from, to := clientLine, serverLine
			if r.fromServer {
				from, to = to, from
			}
			color, width := "dim", 1.8
			if r.data {
				color, width = "rdma", 5.0
			}
			d.text((clientLine+serverLine)/2, y+20, "middle", strong, "ink", r.words)
			d.arrow(from, y+32, to, y+32, color, width)
			d.text((clientLine+serverLine)/2, y+52, "middle", small, "dim", r.below)
		}
		y += r.height()
	}
	return d
}

func (r rung) height() float64 {
	h := 14 + 17*float64(max(len(r.client), len(r.server)))
	if r.words != "" {
		h = max(h, 68)
	}
	return h
}

func ladders() []*drawing {
	end := []string{"reply matched by its XID;", "the STag is invalid, so no", "late byte can be placed"}
	return []*drawing{
		ladder("read", "A READ of 1 MiB over RDMA", []rung{
			{client: []string{"the caller's buffer gets an", "STag for remote writing"}},
			{words: "Send: the call, and a Write chunk", below: "the chunk names STag, length and offset",
				server: []string{"chunk lists checked against", "the limits; who calls?"}},
			{server: []string{"the caller's right to read is", "checked; file bytes are read"}},
			{fromServer: true, data: true, words: "RDMA Write: 1 MiB", below: "into the buffer, with no receive and no message",
				client: []string{"STag, bounds and rights are", "checked for each segment"}},
			{fromServer: true, words: "Send with Invalidate: the reply", below: "in the same batch, after the data", client: end},
		}),
		ladder("write", "A WRITE of 1 MiB over RDMA", []rung{
			{client: []string{"the data gets an STag", "for remote reading"}},
			{words: "Send: the call, and a Read chunk", below: "the chunk names STag, length and offset",
				server: []string{"chunk lists checked; waits", "for memory, if need be"}},
			{fromServer: true, words: "RDMA Read Request", below: "the server decides when data comes",
				client: []string{"STag, bounds and rights are", "checked; the RNIC answers"}},
			{data: true, words: "RDMA Read Response: 1 MiB", below: "into memory of the server's budget",
				server: []string{"after the last byte the call", "is put together"}},
			{server: []string{"written as the caller; fsync", "if the WRITE is FILE_SYNC"}},
			{fromServer: true, words: "Send with Invalidate: the reply", below: "status and attributes", client: end},
		}),
	}
}
