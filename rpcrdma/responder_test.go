// The responder against a requester scripted byte by byte.

package rpcrdma

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// r1 declares remote invalidation, r0 does not.
var (
	r1 = AppendPrivateData(nil, PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})
	r0 = AppendPrivateData(nil, PrivateData{SendSize: 4096, RecvSize: 4096})
)

func serverConfig(srv *echoServer) Config {
	return Config{Credits: grant, Handler: srv, MaxPull: 1 << 20}
}

// Messages that need no answer get none, and the connection continues.
func TestResponderDrops(t *testing.T) { overProviders(t, testResponderDrops) }

func testResponderDrops(t *bed) {
	conformance.Proves(t, "R8166-029", "R8166-032", "R8166-103", "R8166-114", "R8166-146", "R8166-175", "R8167-020")
	srv := &echoServer{}
	p, c := rawRequester(t, serverConfig(srv), r1)
	call := words(7, 1, 1, 0, 0, 0, 0, 7, 0, 0)
	for _, n := range []int{0, 4, 15, 16, 20, 27} { // RFC 8166 §4.5 [R8166-146]
		p.send(call[:n])
		p.null("short call")
	}
	for name, msg := range map[string][]byte{
		"DONE":           words(7, 1, 1, 3), // RFC 8166 §4.6.2 [R8166-175]
		"long DONE":      words(7, 1, 1, 3, 0, 0, 0),
		"ERR_CHUNK":      words(7, 1, 1, 4, 2), // RFC 8166 §4.2.4 [R8166-114]
		"ERR_VERS":       words(7, 1, 1, 4, 1, 1, 1),
		"unknown error":  words(7, 1, 1, 4, 9, 1, 1),
		"unsolicited":    words(7, 1, 1, 0, 0, 0, 0, 7, 1, 0),
		"short ERR_VERS": words(7, 2, 1, 4, 1),
	} {
		for range 4 { // each consumed a receive, which was replaced (RFC 8166 §3.3.1 [R8166-032])
			for range grant - 1 {
				p.send(msg)
			}
			p.null(name)
		}
	}
	if n := srv.calls.Load(); n != 6+4*7 {
		t.Errorf("%d calls were served", n)
	}
	p.qp.Close()
	<-c.Done()
	checkReleased(t, c)
}

// Faulty calls get RDMA_ERROR, are not served, and the connection continues (RFC 8166 §4.5
// [R8166-148 R8166-150 R8166-151 R8166-152 R8166-153]).
func TestResponderRefuses(t *testing.T) { overProviders(t, testResponderRefuses) }

func testResponderRefuses(t *bed) {
	conformance.Proves(t, "R8166-017", "R8166-020", "R8166-049", "R8166-050", "R8166-061", "R8166-064", "R8166-103", "R8166-105",
		"R8166-110", "R8166-112", "R8166-148", "R8166-150", "R8166-151", "R8166-152", "R8166-153", "R8166-156", "R8166-157",
		"R8166-158", "R8166-159", "R8166-160", "R8166-172", "R8166-196", "R8166-204")
	srv := &echoServer{}
	p, c := rawRequester(t, serverConfig(srv), r1)
	data := make([]byte, 1024)
	mr := p.expose(data, rnic.RemoteRead)
	sg := part(mr, 0, 64)
	bogus := []uint32{0xdead0000, 64, 0, 0} // to be refused before any RDMA Read
	errChunk := words(7, 1, grant, 4, 2)
	rpc := []uint32{7, 0, procNull}
	for _, c := range []struct {
		name      string
		msg, want []byte
	}{
		{"version 2", words(7, 2, 1, 0, 0, 0, 0, rpc), words(7, 2, grant, 4, 1, 1, 1)}, // RFC 8166 §4.5.1 [R8166-156]
		{"version 0", words(7, 0, 1, 9, 0, 0, 0, rpc), words(7, 0, grant, 4, 1, 1, 1)},
		{"version -1", words(7, uint32(1<<32-1), 1, 0, 0, 0, 0), words(7, uint32(1<<32-1), grant, 4, 1, 1, 1)},
		{"MSGP", words(7, 1, 1, 2, 4, 0, 0, 0, 0, rpc), errChunk}, // RFC 8166 §4.6.1 [R8166-172]
		{"proc 5", words(7, 1, 1, 5, 0, 0, 0, rpc), errChunk},     // RFC 8166 §4.5.2 [R8166-158]
		{"proc -1", words(7, 1, 1, uint32(1<<32-1), 0, 0, 0, rpc), errChunk},
		{"Read list word 2", words(7, 1, 1, 0, 2, 0, 0, rpc), errChunk}, // RFC 8166 §4.3 [R8166-117], RFC 8166 §4.5.2 [R8166-157]
		{"Write list word 2", words(7, 1, 1, 0, 0, 2, 0, rpc), errChunk},
		{"Reply chunk word 2", words(7, 1, 1, 0, 0, 0, 2, rpc), errChunk},
		{"cut Read list", words(7, 1, 1, 0, 1, 80, 1), errChunk},
		{"absurd count", words(7, 1, 1, 0, 0, 1, uint32(1<<32-1), rpc), errChunk},
		{"no RPC message", words(7, 1, 1, 0, 0, 0, 0), errChunk},
		{"half an RPC message", words(7, 1, 1, 0, 0, 0, 0, 7), errChunk},
		{"NOMSG of nothing", words(7, 1, 1, 1, 0, 0, 0), errChunk}, // RFC 8166 §4.2.4 [R8166-110], RFC 8166 §4.5.2 [R8166-159]
		{"NOMSG with data chunk", words(7, 1, 1, 1, 1, 12, sg, 0, 0, 0), errChunk},
		{"NOMSG of four bytes", words(7, 1, 1, 1, 1, 0, part(mr, 0, 4), 0, 0, 0), errChunk},
		{"NOMSG with message", words(7, 1, 1, 1, 1, 0, bogus, 0, 0, 0, rpc), errChunk},
		{"another XID", words(7, 1, 1, 0, 0, 0, 0, 8, 0, 0), errChunk},                           // RFC 8166 §4.2.1 [R8166-105], RFC 8166 §4.5.2 [R8166-160]
		{"another XID pulled", words(7, 1, 1, 1, 1, 0, sg, 0, 0, 0), errChunk},                   // data is zeros
		{"Position 13", words(7, 1, 1, 0, 1, 13, bogus, 0, 0, 0, 7, 0, procWrite, 64), errChunk}, // RFC 8166 §3.4.5 [R8166-061]
		{"Position behind the end", words(7, 1, 1, 0, 1, 20, bogus, 0, 0, 0, 7, 0, procWrite, 64), errChunk},
		{"Position far out", words(7, 1, 1, 0, 1, 0x7ffffffc, bogus, 0, 0, 0, 7, 0, procWrite, 64), errChunk}, // RFC 8166 §3.4.5 [R8166-064]
		{"Position zero in MSG", words(7, 1, 1, 0, 1, 0, bogus, 0, 0, 0, rpc), errChunk},
		{"too much to pull", words(7, 1, 1, 0, 1, 16, 0xdead0000, 1<<20+1, 0, 0, 0, 0, 0, 7, 0, procWrite, 1<<20+1), errChunk},                     // RFC 8166 §3.4.4 [R8166-050], RFC 8166 §8.1.4 [R8166-204]
		{"4 GiB in two", words(7, 1, 1, 0, 1, 16, 1, uint32(1<<31), 0, 0, 1, 16, 1, uint32(1<<31+8), 0, 0, 0, 0, 0, 7, 0, procWrite, 8), errChunk}, // RFC 8166 §3.4.4 [R8166-049]
	} {
		p.send(c.msg)
		p.want(c.name, c.want)
		if p.inv != 0 {
			t.Errorf("%s: RDMA_ERROR invalidates", c.name)
		}
		p.null(c.name)
	}
	if got := srv.calls.Load(); got != 25 {
		t.Errorf("%d calls were served, want only the NULLs", got)
	}
	p.qp.Close()
	<-c.Done()
	checkReleased(t, c)
}

// A reply that fits nowhere is replaced by ERR_CHUNK, with no byte written (RFC 8166 §4.5.3
// [R8166-165], RFC 8267 §3.1 [R8267-009]).
func TestResponderShortOfRoom(t *testing.T) { overProviders(t, testResponderShortOfRoom) }

func testResponderShortOfRoom(t *bed) {
	conformance.Proves(t, "R8166-165", "R8267-002", "R8267-006", "R8267-009")
	p, _ := rawRequester(t, serverConfig(&echoServer{}), r1)
	room := bytes.Repeat([]byte{0xaa}, 8192)
	mr := p.expose(room, rnic.RemoteWrite)
	for name, lists := range map[string][]byte{
		"small Write chunk":               words(0, 1, 1, part(mr, 0, 4096), 0, 0),
		"small Reply chunk":               words(0, 0, 1, 1, part(mr, 0, 8015)),
		"no chunk":                        words(0, 0, 0),
		"small Write chunk, Reply chunk":  words(0, 1, 1, part(mr, 0, 64), 0, 1, 1, part(mr, 0, 8192)),
		"empty Write chunk alone":         words(0, 1, 0, 0, 0),
		"Reply chunk without any segment": words(0, 0, 1, 0),
	} {
		p.send(words(7, 1, 1, 0, lists, 7, 0, procRead, 8000))
		p.want(name, words(7, 1, grant, 4, 2))
		if i := bytes.IndexFunc(room, func(r rune) bool { return r != 0xfffd }); i >= 0 {
			t.Errorf("%s: byte %d was written", name, i)
		}
		p.null(name)
	}
}

// readItem returns the bytes of a READ's result.
func readItem(xid uint32, n int) []byte {
	b := make([]byte, n)
	fill(b, xid)
	return b
}

// Items fill Write chunks segment by segment; every chunk comes back with its handles, offsets and
// count, and the written bytes as lengths (RFC 8166 §3.4.6 [R8166-074 R8166-075 R8166-076 R8166-077
// R8166-078]).
func TestResponderWriteChunks(t *testing.T) { overProviders(t, testResponderWriteChunks) }

func testResponderWriteChunks(t *bed) {
	conformance.Proves(t, "R8166-047", "R8166-057", "R8166-074", "R8166-075", "R8166-076", "R8166-078", "R8166-081", "R8166-082",
		"R8166-092", "R8166-093", "R8166-095", "R8166-123", "R8166-124", "R8166-127", "R8166-130", "R8166-133", "R8166-134",
		"R8166-135", "R8166-138", "R8166-139", "R8166-140", "R8267-024", "R8797-001", "R8797-011", "R8797-012")
	p, _ := rawRequester(t, serverConfig(&echoServer{}), r1)
	room := make([]byte, 8192)
	fresh := func() *rnic.MR { // a new one each time: the reply invalidates it
		for i := range room {
			room[i] = 0xaa
		}
		return p.expose(room, rnic.RemoteWrite)
	}
	call := func(lists []byte, n int) { p.send(words(7, 1, 1, 0, lists, 7, 0, procRead, n)) }

	mr := fresh() // 250 bytes over 100+100+100
	call(words(0, 1, 3, part(mr, 0, 100), part(mr, 1000, 100), part(mr, 2000, 100), 0, 0), 250)
	p.want("three segments", words(7, 1, grant, 0, 0, 1, 3, part(mr, 0, 100), part(mr, 1000, 100), part(mr, 2000, 50), 0, 0, 7, 1, 0, 250, 250))
	got := append(append(bytes.Clone(room[:100]), room[1000:1100]...), room[2000:2050]...)
	if !bytes.Equal(got, readItem(7, 250)) || room[2050] != 0xaa {
		t.Error("bytes are wrong")
	}
	if p.inv != mr.STag() || mr.Valid() {
		t.Error("both sides offer remote invalidation, and it is not used")
	}

	// No padding is written into the chunk, although it has room (RFC 8166 §3.4.6.2 [R8166-081
	// R8166-082]).
	mr = fresh()
	call(words(0, 1, 2, part(mr, 0, 5), part(mr, 5, 4), 0, 0), 5)
	p.want("no pad", words(7, 1, grant, 0, 0, 1, 2, part(mr, 0, 5), part(mr, 5, 0), 0, 0, 7, 1, 0, 5, 5))
	if !bytes.Equal(room[:5], readItem(7, 5)) || room[5] != 0xaa {
		t.Error("a pad was written")
	}

	// Without bytes to write the chunk is returned as unused (RFC 8166 §4.3.2 [R8166-124], RFC 8166
	// §4.3.2.2 [R8166-130]).
	mr = fresh()
	call(words(0, 1, 2, part(mr, 0, 100), part(mr, 1000, 100), 0, 0), 0)
	p.want("empty item", words(7, 1, grant, 0, 0, 1, 2, part(mr, 0, 0), part(mr, 1000, 0), 0, 0, 7, 1, 0, 0, 0))

	// A chunk without segments requests its item inline (RFC 8166 §4.3.2.3 [R8166-133 R8166-134]).
	fresh()
	call(words(0, 1, 0, 0, 0), 5)
	p.want("count 0", words(7, 1, grant, 0, 0, 1, 0, 0, 0, 7, 1, 0, 5, 5, readItem(7, 5), []byte{0, 0, 0}))

	// One chunk too many and an unneeded Reply chunk are returned as unused (RFC 8166 §4.3.2.1
	// [R8166-127], RFC 8166 §4.3.3 [R8166-139]).
	mr = fresh()
	call(words(0, 1, 1, part(mr, 0, 8), 1, 1, part(mr, 100, 8), 0, 1, 1, part(mr, 200, 100)), 8)
	p.want("unused ones", words(7, 1, grant, 0, 0, 1, 1, part(mr, 0, 8), 1, 1, part(mr, 100, 0), 0, 1, 1, part(mr, 200, 0), 7, 1, 0, 8, 8))

	// The Write chunk takes its item first, the rest fits inline (RFC 8166 §3.5.3 [R8166-092]).
	mr = fresh()
	call(words(0, 1, 1, part(mr, 0, 6000), 0, 1, 1, part(mr, 6000, 64)), 6000)
	p.want("Write chunk before Reply chunk", words(7, 1, grant, 0, 0, 1, 1, part(mr, 0, 6000), 0, 1, 1, part(mr, 6000, 0), 7, 1, 0, 6000, 6000))

	// The whole reply goes into the Reply chunk, padding included (RFC 8166 §3.5.3 [R8166-093
	// R8166-095], RFC 8166 §4.3.3 [R8166-140]).
	mr = fresh()
	call(words(0, 0, 1, 2, part(mr, 0, 4096), part(mr, 4100, 4000)), 5001)
	p.want("Reply chunk", words(7, 1, grant, 1, 0, 0, 1, 2, part(mr, 0, 4096), part(mr, 4100, 20+5004-4096)))
	got = append(bytes.Clone(room[:4096]), room[4100:4100+20+5004-4096]...)
	if !bytes.Equal(got, words(7, 1, 0, 5001, 5001, readItem(7, 5001), []byte{0, 0, 0})) {
		t.Error("bytes of the long reply are wrong")
	}
	p.null("at the end")
}

// Remote invalidation needs both sides (RFC 8797 §4.1 [R8797-013]), and replies keep to the smaller
// threshold when the peer declares nothing (RFC 8166 §3.3.3 [R8166-038]).
func TestResponderPlainPeers(t *testing.T) { overProviders(t, testResponderPlainPeers) }

func testResponderPlainPeers(t *bed) {
	conformance.Proves(t, "R8166-038", "R8166-093", "R8166-164", "R8797-013", "R8797-017", "R8797-019")
	for name, private := range map[string][]byte{"R=0": r0, "no private data": nil} {
		p, _ := rawRequester(t, serverConfig(&echoServer{}), private)
		room := make([]byte, 8192)
		mr := p.expose(room, rnic.RemoteWrite)
		p.send(words(7, 1, 1, 0, 0, 1, 1, part(mr, 0, 100), 0, 0, 7, 0, procRead, 100))
		p.want(name, words(7, 1, grant, 0, 0, 1, 1, part(mr, 0, 100), 0, 0, 7, 1, 0, 100, 100))
		if p.inv != 0 || !mr.Valid() {
			t.Errorf("%s: a Send with Invalidate", name)
		}
		want := ProcMsg // 64 + 16 + 1000 bytes
		if private == nil {
			want = ProcNoMsg
		}
		p.send(words(7, 1, 1, 0, 0, 0, 1, 1, part(mr, 0, 2000), 7, 0, procRead, 1000))
		msg, err := p.next()
		var h Header
		if err := errors.Join(err, h.Parse(msg)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if h.Proc != want {
			t.Errorf("%s: %v in %d bytes, want %v", name, h.Proc, len(msg), want)
		}
	}
}

// Read chunks in every shape yield the intended call.
func TestResponderReadChunks(t *testing.T) { overProviders(t, testResponderReadChunks) }

func testResponderReadChunks(t *bed) {
	conformance.Proves(t, "R8166-012", "R8166-046", "R8166-048", "R8166-056", "R8166-060", "R8166-062", "R8166-063", "R8166-065",
		"R8166-070", "R8166-071", "R8166-088", "R8166-091", "R8166-094", "R8166-108", "R8166-111", "R8166-119", "R8166-161",
		"R8166-162", "R8166-179")
	srv := &echoServer{}
	p, _ := rawRequester(t, serverConfig(srv), r0)
	item := readItem(3, 4097)
	mem := append(bytes.Clone(item), 0, 0, 0, 0xbb)
	long := words(7, 0, procWrite, 4097, item, []byte{0, 0, 0})
	cut := words(7, 0, procPair, 10, 9) // both length words: the items are taken out
	mr, lmr, cmr := p.expose(mem, rnic.RemoteRead), p.expose(long, rnic.RemoteRead), p.expose(cut, rnic.RemoteRead)
	rpc := words(7, 0, procWrite, 4097)
	ok := words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0, sum(item), 4097)
	garbage := words(7, 1, grant, 0, 0, 0, 0, 7, 1, 4)
	pair := words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0, 10, 9, sum(item[:10])^sum(item[10:19])<<1)
	swapped := append(bytes.Clone(item[3:6]), append(bytes.Clone(item[:3]), item[6:10]...)...)
	for _, c := range []struct {
		name      string
		msg, want []byte
	}{
		{"one chunk", words(7, 1, 1, 0, 1, 16, part(mr, 0, 4097), 0, 0, 0, rpc), ok},        // RFC 8166 §3.4.5.2 [R8166-067]
		{"pad in the chunk", words(7, 1, 1, 0, 1, 16, part(mr, 0, 4100), 0, 0, 0, rpc), ok}, // RFC 8166 §3.4.5.2 [R8166-070 R8166-071]
		{"pad as a segment", words(7, 1, 1, 0, 1, 16, part(mr, 0, 4097), 1, 16, part(mr, 4097, 3), 0, 0, 0, rpc), ok},
		{"odd and empty segments", words(7, 1, 1, 0, 1, 16, part(mr, 0, 3), 1, 16, part(mr, 3, 0), 1, 16, part(mr, 3, 4094), 0, 0, 0, rpc), ok}, // RFC 8166 §3.4.3 [R8166-046], RFC 8166 §3.4.4 [R8166-048]
		{"item is shorter", words(7, 1, 1, 0, 1, 16, part(mr, 0, 4096), 0, 0, 0, rpc), garbage},                                                 // RFC 8166 §4.5.2 [R8166-161]
		{"item is longer", words(7, 1, 1, 0, 1, 16, part(mr, 0, 4101), 0, 0, 0, rpc), garbage},
		{"Position is off", words(7, 1, 1, 0, 1, 12, part(mr, 0, 4097), 0, 0, 0, rpc), garbage},                                                                       // RFC 8166 §4.5.2 [R8166-162]
		{"long call", words(7, 1, 1, 1, 1, 0, part(lmr, 0, 1500), 1, 0, part(lmr, 1500, len(long)-1500), 0, 0, 0), ok},                                                // RFC 8166 §3.5.3 [R8166-088]
		{"small long call", words(7, 1, 1, 1, 1, 0, part(p.expose(words(7, 0, procNull), rnic.RemoteRead), 0, 12), 0, 0, 0), words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0)}, // RFC 8166 §3.5.3 [R8166-091]
		{"long call with items", words(7, 1, 1, 1, 1, 16, part(mr, 0, 10), 1, 0, part(cmr, 0, 20), 1, 32, part(mr, 10, 9), 0, 0, 0), pair},                            // RFC 8166 §3.4.5 [R8166-060], RFC 8166 §4.2.4 [R8166-111], RFC 8166 §4.7 [R8166-179]
		{"two items", words(7, 1, 1, 0, 1, 32, part(mr, 10, 9), 1, 16, part(mr, 0, 10), 0, 0, 0, cut), pair},
		{"segments in list order", words(7, 1, 1, 0, 1, 16, part(mr, 3, 3), 1, 16, part(mr, 0, 3), 1, 16, part(mr, 6, 4), 0, 0, 0, 7, 0, procWrite, 10), // RFC 8166 §3.4.5 [R8166-062 R8166-063]
			words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0, sum(swapped), 10)},
		{"nothing in a chunk", words(7, 1, 1, 0, 1, 16, part(mr, 0, 0), 0, 0, 0, 7, 0, procWrite, 0), words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0, 0, 0)},
	} {
		p.send(c.msg)
		p.want(c.name, c.want)
		p.null(c.name)
	}
}

// An unreadable chunk ends that connection, and only that (RFC 8166 §4.5.3 [R8166-163]).
func TestResponderBadSTag(t *testing.T) { overProviders(t, testResponderBadSTag) }

func testResponderBadSTag(t *bed) {
	conformance.Proves(t, "R8166-163")
	for name, lists := range map[string][]byte{
		"Read chunk":  words(1, 16, 0xdead0000, 64, 0, 0, 0, 0, 0, 7, 0, procWrite, 64),
		"Write chunk": words(0, 1, 1, 0xdead0000, 64, 0, 0, 0, 0, 7, 0, procRead, 64),
	} {
		srv := &echoServer{}
		p, c := rawRequester(t, serverConfig(srv), r1)
		p.send(words(7, 1, 1, 0, lists))
		<-c.Done()
		if _, err := p.next(); err == nil {
			t.Errorf("%s: answered", name)
		}
		checkReleased(t, c)
	}
}

// A peer that overdraws its credits loses its connection (RFC 8166 §3.3.1 [R8166-019 R8166-030]).
func TestResponderOverdraft(t *testing.T) { overProviders(t, testResponderOverdraft) }

func testResponderOverdraft(t *bed) {
	conformance.Proves(t, "R8166-030")
	held := make(chan *Request, 2*grant)
	srv := &echoServer{hold: func(r *Request, _ uint32) bool { held <- r; return true }}
	p, c := rawRequester(t, serverConfig(srv), r1)
	for i := range grant + 1 {
		p.send(words(i, 1, 1, 0, 0, 0, 0, i, 0, 0))
	}
	<-c.Done()
	close(held)
	for r := range held {
		if err := r.Reply(replyTo(r)); err == nil {
			t.Error("a reply was taken by a dead connection")
		}
		if r.RejectChunks() != ErrEnded {
			t.Error("a request ended twice")
		}
	}
	if !errors.Is(c.Err(), ErrClosed) || !errors.Is(c.Err(), errOvercommit) {
		t.Errorf("Err: %v, want %v", c.Err(), errOvercommit)
	}
}

// replyTo returns a NULL reply.
func replyTo(r *Request) chunks.Message {
	return chunks.Message{Stream: words(r.Msg.Stream[:4], 1, 0)}
}

// A reply posted after the QP has ended reports the cause of the end.
func TestCauseIsTheFirst(t *testing.T) {
	c, err := newConn(iwarp.Open(rnic.DeviceConfig{}), Config{Credits: 1})
	if err != nil {
		t.Fatalf("newConn: %v", err)
	}
	c.qp.Abort(errStalled)
	r := c.responder.getRequest()
	r.wrs = []rnic.SendWR{{Op: rnic.OpSend}}
	if err := r.post(); !errors.Is(err, errStalled) {
		t.Errorf("post: %v, want %v", err, errStalled)
	}
	if err := c.postError(rnic.ErrState); !errors.Is(err, errStalled) {
		t.Errorf("postError: %v, want %v", err, errStalled)
	}
}

// The end of the connection takes a call out of the Budget's queue, and frees its credit and
// receive.
func TestEndWhilePullWaits(t *testing.T) { overProviders(t, testEndWhilePullWaits) }

func testEndWhilePullWaits(t *bed) {
	budget := mem.NewBudget(1 << 20)
	other := budget.Open(nil)
	if !other.Take(1 << 20) {
		t.Fatal("not all is free")
	}
	srv := &echoServer{}
	p, c := rawRequester(t, Config{Credits: grant, Handler: srv, Budget: budget}, r1)
	mr := p.expose(make([]byte, 4096), rnic.RemoteRead)
	for xid := range 2 {
		p.send(words(xid, 1, 1, 0, 1, 16, part(mr, 0, 4096), 0, 0, 0, xid, 0, procWrite, 4096))
	}
	must.Become(t, "two pulls that wait", func() bool {
		c.responder.mu.Lock()
		defer c.responder.mu.Unlock()
		return len(c.responder.pulls) == 2 && c.responder.waits
	})
	c.Close()
	checkReleased(t, c)
	other.Give(1 << 20)
	if budget.Free() != 1<<20 || srv.calls.Load() != 0 {
		t.Errorf("%d bytes free, %d served", budget.Free(), srv.calls.Load())
	}
}
