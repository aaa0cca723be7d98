// The duplicate request cache: once is once, over whatever connection.

package transport

import (
	"bytes"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// callOf is a call with one word of arguments.
func callOf(xid, proc, arg uint32) chunks.Message {
	var e xdr.Encoder
	h := oncrpc.CallHeader{XID: xid, Prog: testProg, Vers: testVers, Proc: proc}
	h.EncodeXDR(&e)
	e.Uint32(arg)
	return chunks.Message{Stream: e.Bytes()}
}

func TestDuplicateHasTheFirstReply(t *testing.T) {
	s, p := newTestServer(t)
	first := newTape("10.0.0.1").do(s, callOf(7, tCount, 1))
	again := newTape("10.0.0.1").do(s, callOf(7, tCount, 1)) // over another connection
	if first.how != "reply" || !bytes.Equal(first.reply, again.reply) {
		t.Errorf("first %x, again %x", first.reply, again.reply)
	}
	if n := p.runs.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

func TestOtherCallsAreNoDuplicates(t *testing.T) {
	s, p := newTestServer(t)
	newTape("10.0.0.1").do(s, callOf(7, tCount, 1))
	newTape("10.0.0.2").do(s, callOf(7, tCount, 1)) // another client
	newTape("10.0.0.1").do(s, callOf(8, tCount, 1)) // another XID
	newTape("10.0.0.1").do(s, callOf(7, tCount, 2)) // other arguments: the XID is used again
	if n := p.runs.Load(); n != 4 {
		t.Errorf("ran %d times, want 4", n)
	}
}

func TestDuplicateOfARunningCall(t *testing.T) {
	s, p := newTestServer(t)
	one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
	one.start(s, callOf(7, tHold, 0))
	<-p.entered
	for range drcWaiters {
		two.start(s, callOf(7, tHold, 0))
	}
	two.start(s, callOf(7, tHold, 0))
	if got := <-two.ends; got.how != "drop" { // one more than may wait
		t.Errorf("too many duplicates: %s", got.how)
	}
	p.release()
	first := <-one.ends
	for range drcWaiters {
		if got := <-two.ends; got.how != "reply" || !bytes.Equal(got.reply, first.reply) {
			t.Errorf("duplicate: %s %x, want %x", got.how, got.reply, first.reply)
		}
	}
	if n := p.runs.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// What failed as an RPC is not kept: the next attempt may do better.
func TestFailedCallIsNotKept(t *testing.T) {
	s, _ := newTestServer(t)
	newTape("10.0.0.1").do(s, callOf(7, tSystem, 0))
	newTape("10.0.0.1").do(s, callOf(7, tPanic, 0))
	if n := len(s.drc.entries); n != 0 {
		t.Errorf("%d entries are kept", n)
	}
}

func TestDRCBounds(t *testing.T) {
	d := newDRC()
	now := time.Now()
	for i := range drcEntries + 100 {
		e := &drcEntry{key: drcKey{xid: uint32(i)}, reply: make([]byte, 24), at: now}
		d.entries[e.key] = e
		d.push(e)
	}
	if len(d.entries) != drcEntries || d.octets != 24*drcEntries {
		t.Errorf("%d entries of %d octets", len(d.entries), d.octets)
	}
	if d.entries[drcKey{xid: 99}] != nil || d.entries[drcKey{xid: 100}] == nil {
		t.Error("the oldest was not the one to go")
	}
	big := &drcEntry{key: drcKey{prog: 1}, reply: make([]byte, drcOctets), at: now}
	d.entries[big.key] = big
	d.push(big)
	if len(d.entries) != 1 {
		t.Errorf("%d entries, though octets are bounded", len(d.entries))
	}
	d.expire(now.Add(drcAge))
	if len(d.entries) != 1 {
		t.Error("removed before its time")
	}
	d.expire(now.Add(drcAge + 1))
	if len(d.entries) != 0 || d.octets != 0 || d.done != 0 {
		t.Errorf("%d entries, %d octets, %d done after all have expired", len(d.entries), d.octets, d.done)
	}
}
