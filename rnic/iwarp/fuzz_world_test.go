// The setting of FuzzQP's conversations: memory of every kind, and posted work.

package iwarp_test

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// secret fills memory that the peer has no right to read, and the memory around regions. No script
// contains this byte.
const secret = 0xee

// Regions by what the peer may do with them.
const (
	regionWrite = iota
	regionRead
	regionBoth
	regionOther // of another PD
	regionBound // to another QP
	regionSink  // of our Reads
	regionNone  // no rights
	regionGone  // invalidated
	numRegions
)

var rights = [numRegions]rnic.Access{rnic.RemoteWrite, rnic.RemoteRead, rnic.RemoteRead | rnic.RemoteWrite,
	rnic.RemoteRead | rnic.RemoteWrite, rnic.RemoteRead | rnic.RemoteWrite, rnic.LocalWrite, 0, rnic.RemoteRead | rnic.RemoteWrite}

// guard is the number of guard bytes on each side of a piece of memory.
const guard = 8

// A piece is memory with guard bytes, and its expected content.
type piece struct {
	all  []byte
	want []byte // content that must not change; nil: it may
}

func newPiece(n int) *piece {
	return &piece{all: bytes.Repeat([]byte{secret}, n+2*guard)}
}

func (p *piece) buf() []byte { return p.all[guard : len(p.all)-guard : len(p.all)-guard] }

// freeze makes look expect the present content.
func (p *piece) freeze() { p.want = bytes.Clone(p.buf()) }

// fuzzMemory is the regions and every other buffer of a conversation.
type fuzzMemory struct {
	t      *testing.T
	dev    *rnic.Device
	pd     *rnic.PD
	mrs    [numRegions]*rnic.MR
	pieces [numRegions]*piece
	reads  []bool // bytes of regionSink into which a posted Read may place
}

func newFuzzMemory(t *testing.T, dev *rnic.Device) *fuzzMemory {
	m := &fuzzMemory{t: t, dev: dev, pd: dev.AllocPD()}
	other := dev.AllocPD()
	cq := dev.NewCQ(1)
	for i := range m.mrs {
		n, pd := 64, m.pd
		switch i {
		case regionRead, regionSink:
			n = 4000
		case regionOther:
			pd = other
		}
		p := newPiece(n)
		if i == regionRead || i == regionBoth {
			clear(p.buf())
		}
		mr, err := pd.RegMR(p.buf(), rights[i])
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		switch i {
		case regionRead, regionOther, regionNone:
			p.freeze()
		case regionBound:
			qp, err := other.CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq})
			if err != nil {
				t.Fatalf("CreateQP: %v", err)
			}
			t.Cleanup(func() { qp.Close() })
			mr.Bind(qp)
			p.freeze()
		case regionGone:
			mr.Invalidate()
			p.freeze()
		case regionSink:
			m.reads = make([]bool, n)
		}
		m.mrs[i], m.pieces[i] = mr, p
	}
	return m
}

// invalidate invalidates region i; nothing may be placed there from then on.
func (m *fuzzMemory) invalidate(i int) {
	m.mrs[i].Invalidate()
	m.gone(i)
}

func (m *fuzzMemory) gone(i int) {
	if m.pieces[i].want == nil {
		m.pieces[i].freeze()
	}
}

// rereg makes a region valid again, if its kind allows that.
func (m *fuzzMemory) rereg(i int) {
	p := m.pieces[i]
	if m.mrs[i].Valid() {
		return
	}
	m.look(i, p)
	if m.mrs[i].Rereg(p.buf(), rights[i]) != nil {
		return
	}
	switch i {
	case regionWrite, regionBoth, regionSink, regionGone:
		p.want = nil
	}
	if i == regionGone {
		clear(p.buf())
	}
}

// fuzzWork is the QP and the work posted to it.
type fuzzWork struct {
	t       *testing.T
	mem     *fuzzMemory
	qp      *rnic.QP
	cq      *rnic.CQ
	posted  [2][]work // uncompleted work on the send queue and the receive queue
	buffers []*piece
	id      uint64
}

// work is one work request.
type work struct {
	id     uint64
	op     rnic.Opcode
	silent bool
	buf    *piece // OpRecv
	region int    // OpReadInvalidate, OpLocalInvalidate
}

func newFuzzWork(t *testing.T, m *fuzzMemory, mode byte) *fuzzWork {
	w := &fuzzWork{t: t, mem: m}
	depth := 64
	if mode&fuzzSmallCQ != 0 {
		depth = 2
	}
	w.cq = m.dev.NewCQ(depth)
	qp, err := m.pd.CreateQP(rnic.QPConfig{SendCQ: w.cq, RecvCQ: w.cq, SQDepth: 16, RQDepth: 8})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	w.qp = qp
	return w
}

func (w *fuzzWork) postRecv(n int) {
	p := newPiece(n)
	w.id++
	if w.qp.PostRecv(rnic.RecvWR{ID: w.id, Buf: p.buf()}) == nil {
		w.posted[1] = append(w.posted[1], work{id: w.id, op: rnic.OpRecv, buf: p})
		w.buffers = append(w.buffers, p)
	}
}

// postSend posts a Send, a Write, or a local invalidation.
func (w *fuzzWork) postSend(kind byte, n int) {
	w.id++
	data := make([]byte, n*16)
	wr := rnic.SendWR{ID: w.id, SGL: [][]byte{data[:n], nil, data[n:]}, Unsignaled: kind&0x80 != 0, Fence: kind&0x40 != 0,
		Invalidate: 1, RemoteSTag: 2}
	job := work{id: w.id, silent: wr.Unsignaled}
	switch kind % 5 {
	case 0:
		wr.Op = rnic.OpSend
	case 1:
		wr.Op = rnic.OpWrite
	case 2:
		job.region = n % numRegions
		wr = rnic.SendWR{ID: w.id, Op: rnic.OpLocalInvalidate, MR: w.mem.mrs[job.region], Unsignaled: wr.Unsignaled}
	case 3:
		wr.Op = rnic.OpSendSEInvalidate
	case 4:
		wr.Op, wr.SGL = rnic.OpSendSE, nil
	}
	job.op = wr.Op
	if w.qp.PostSend(wr) == nil {
		w.posted[0] = append(w.posted[0], job)
	}
}

func (w *fuzzWork) postRead(inv bool, off, n int) {
	w.id++
	wr := rnic.SendWR{ID: w.id, Op: rnic.OpRead, MR: w.mem.mrs[regionSink], Offset: uint64(off), Length: uint32(n), RemoteSTag: 9}
	if inv {
		wr.Op = rnic.OpReadInvalidate
	}
	if w.qp.PostSend(wr) != nil {
		return
	}
	for i := off; i < off+n; i++ {
		w.mem.reads[i] = true
	}
	w.posted[0] = append(w.posted[0], work{id: w.id, op: wr.Op, region: regionSink})
}

// poll takes all completions, and checks that they come in posting order.
func (w *fuzzWork) poll() {
	var wcs [4]rnic.WC
	for n := w.cq.Poll(wcs[:]); n > 0; n = w.cq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			w.completed(&wc)
		}
	}
}

func (w *fuzzWork) completed(wc *rnic.WC) {
	q := &w.posted[0]
	if wc.Op == rnic.OpRecv {
		q = &w.posted[1]
	}
	for len(*q) > 0 && (*q)[0].id != wc.ID && (*q)[0].silent {
		w.done(&(*q)[0])
		*q = (*q)[1:]
	}
	if len(*q) == 0 || (*q)[0].id != wc.ID {
		w.t.Fatalf("completion %+v, posted %+v", wc, *q)
	}
	if (*q)[0].op != wc.Op || wc.QP != w.qp {
		w.t.Fatalf("completion %+v of QP %p, want opcode %d of %p", wc, wc.QP, (*q)[0].op, w.qp)
	}
	job := (*q)[0]
	*q = (*q)[1:]
	if wc.Status == rnic.WCSuccess {
		w.done(&job)
	}
	if job.op == rnic.OpRecv {
		if int(wc.Len) > len(job.buf.buf()) {
			w.t.Fatalf("%d bytes received in %d", wc.Len, len(job.buf.buf()))
		}
		job.buf.freeze()
	}
	for i, mr := range w.mem.mrs {
		if wc.Invalidated != 0 && wc.Invalidated == mr.STag() {
			w.mem.gone(i)
		}
	}
}

// done records the region that a successful work request has invalidated.
func (w *fuzzWork) done(job *work) {
	if job.op == rnic.OpReadInvalidate || job.op == rnic.OpLocalInvalidate {
		w.mem.gone(job.region)
	}
}

// look checks a piece's content and guard bytes.
func (m *fuzzMemory) look(i int, p *piece) {
	all := p.all
	if bytes.Count(all[:guard], []byte{secret}) != guard || bytes.Count(all[len(all)-guard:], []byte{secret}) != guard {
		m.t.Fatalf("bytes beside region or buffer %d", i)
	}
	if p.want != nil && !bytes.Equal(p.want, p.buf()) {
		m.t.Fatalf("bytes in region or buffer %d, which has none to take", i)
	}
}

// lookAll checks all pieces.
func (w *fuzzWork) lookAll() {
	for i, p := range append(w.mem.pieces[:], w.buffers...) {
		w.mem.look(i, p)
	}
	for i, b := range w.mem.pieces[regionSink].buf() {
		if b != secret && !w.mem.reads[i] {
			w.t.Fatalf("byte %d of the sink, which no Read was for", i)
		}
	}
}

// settled checks that all work has completed.
func (w *fuzzWork) settled() {
	for _, q := range w.posted {
		for _, job := range q {
			if !job.silent {
				w.t.Fatalf("never completed: %+v", job)
			}
		}
	}
}
