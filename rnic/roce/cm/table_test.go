// Each state and each message: action, answer, next state, and that nothing else is accepted.

package cm

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Identifiers of the hand-made peer.
const (
	peerID   = 0xb5b6b7b8
	peerTID  = 0x1122334455667788
	peerGUID = 0x505400fffe0000aa
)

// by returns a datagram from the hand-made peer.
func by(a mad.Attribute, tid uint64, m message) (d Datagram) {
	datagram(&d.MAD, a, tid, m)
	return d
}

// peerREQ returns the hand-made peer's REQ.
func peerREQ(s *side) *mad.REQ {
	c := New(Config{Addr: addrA, GUID: peerGUID, ResponseTimeout: 20})
	r := request()
	r.Peer = s.addr
	m := c.buildREQ(&r, s.addr)
	private, err := c.private(m.PrivateData[:], r.Service, r.SourcePort, s.addr, r.Private)
	if err != nil {
		panic(err)
	}
	copy(m.PrivateData[:], private)
	m.LocalCommID = peerID
	return &m
}

func peerSIDR(s *side) *mad.SIDRREQ {
	c := New(Config{Addr: addrA})
	m := &mad.SIDRREQ{RequestID: peerID, PartitionKey: 0xffff, ServiceID: sidrIP}
	private, err := c.private(m.PrivateData[:], sidrIP, 7, s.addr, nil)
	if err != nil {
		panic(err)
	}
	copy(m.PrivateData[:], private)
	return m
}

// messages returns the peer's correct messages for a connection.
func messages(s *side, k *Conn) map[mad.Attribute]Datagram {
	answered := mad.AnsweredREQ
	if k.state == repSent {
		answered = mad.AnsweredREP
	}
	tid := k.tid
	return map[mad.Attribute]Datagram{
		mad.AttrREQ:     by(mad.AttrREQ, peerTID, peerREQ(s)),
		mad.AttrMRA:     by(mad.AttrMRA, tid, &mad.MRA{LocalCommID: peerID, RemoteCommID: k.id, Message: answered, ServiceTimeout: 20}),
		mad.AttrREJ:     by(mad.AttrREJ, tid, &mad.REJ{LocalCommID: peerID, RemoteCommID: k.id, Reason: mad.RejConsumer}),
		mad.AttrREP:     by(mad.AttrREP, tid, &mad.REP{LocalCommID: peerID, RemoteCommID: k.id, LocalQPN: 0x12}),
		mad.AttrRTU:     by(mad.AttrRTU, tid, &mad.RTU{LocalCommID: peerID, RemoteCommID: k.id}),
		mad.AttrDREQ:    by(mad.AttrDREQ, 99, &mad.DREQ{LocalCommID: peerID, RemoteCommID: k.id, RemoteQPN: k.localQPN}),
		mad.AttrDREP:    by(mad.AttrDREP, k.endTID, &mad.DREP{LocalCommID: peerID, RemoteCommID: k.id}),
		mad.AttrLAP:     by(mad.AttrLAP, tid, &mad.LAP{LocalCommID: peerID, RemoteCommID: k.id, RemoteQPN: k.localQPN}),
		mad.AttrAPR:     by(mad.AttrAPR, k.lapTID, &mad.APR{LocalCommID: peerID, RemoteCommID: k.id, Status: mad.APInvalidCommID}),
		mad.AttrSIDRREQ: by(mad.AttrSIDRREQ, peerTID, peerSIDR(s)),
		mad.AttrSIDRREP: by(mad.AttrSIDRREP, tid, &mad.SIDRREP{RequestID: k.id, QPN: 0x77, ServiceID: sidrIP}),
	}
}

// A row is a state of the connection under test.
type row struct {
	name string
	to   state
	make func(t testing.TB, s *side) *Conn
}

var rows = []row{
	{"REQ sent", reqSent, makeReqSent},
	{"REP received", repReceived, makeRepReceived},
	{"established, active", established, makeActive},
	{"established, active, in doubt", established, makeDoubted},
	{"DREQ sent", dreqSent, makeDreqSent},
	{"time-wait", timeWait, makeTimeWait},
	{"REQ received", reqReceived, makeReqReceived},
	{"REP sent", repSent, makeRepSent},
	{"refused", refused, makeRefused},
	{"established, passive", established, makePassive},
	{"SIDR_REQ sent", sidrReqSent, makeAsking},
	{"SIDR_REQ received", sidrReqReceived, makeAsked},
	{"SIDR_REP sent", sidrRepSent, makeAnswered},
	{"gone", released, func(t testing.TB, s *side) *Conn { return &Conn{id: 0x77777777, tid: peerTID, localQPN: 0x11} }},
}

func makeReqSent(t testing.TB, s *side) *Conn {
	r := request()
	r.Peer = addrA
	k, err := s.cm.Connect(0, r)
	must.Succeed(t, err)
	return k
}

func makeRepReceived(t testing.TB, s *side) *Conn {
	k := makeReqSent(t, s)
	s.hearsFrom(0, addrA, messages(s, k)[mad.AttrREP], Accepted)
	return k
}

func makeActive(t testing.TB, s *side) *Conn {
	k := makeRepReceived(t, s)
	must.Succeed(t, s.cm.Confirm(0, k, nil))
	return k
}

func makeDoubted(t testing.TB, s *side) *Conn {
	k := makeActive(t, s)
	must.Succeed(t, s.cm.Doubt(k))
	return k
}

func makeDreqSent(t testing.TB, s *side) *Conn {
	k := makeActive(t, s)
	must.Succeed(t, s.cm.Disconnect(0, k, nil))
	return k
}

func makeTimeWait(t testing.TB, s *side) *Conn {
	k := makeDreqSent(t, s)
	s.hearsFrom(0, addrA, messages(s, k)[mad.AttrDREP], Accepted)
	return k
}

func makeReqReceived(t testing.TB, s *side) *Conn {
	s.hearsFrom(0, addrA, by(mad.AttrREQ, peerTID, peerREQ(s)), Accepted)
	es := s.told()
	return es[len(es)-1].Conn
}

func makeRepSent(t testing.TB, s *side) *Conn {
	k := makeReqReceived(t, s)
	must.Succeed(t, s.cm.Accept(0, k, qpB, nil))
	return k
}

func makeRefused(t testing.TB, s *side) *Conn {
	k := makeReqReceived(t, s)
	must.Succeed(t, s.cm.Reject(0, k, mad.RejConsumer, nil))
	return k
}

func makePassive(t testing.TB, s *side) *Conn {
	k := makeRepSent(t, s)
	s.hearsFrom(0, addrA, messages(s, k)[mad.AttrRTU], Accepted)
	return k
}

func makeAsking(t testing.TB, s *side) *Conn {
	k, err := s.cm.Resolve(0, Request{Peer: addrA, Service: sidrIP})
	must.Succeed(t, err)
	return k
}

func makeAsked(t testing.TB, s *side) *Conn {
	s.hearsFrom(0, addrA, by(mad.AttrSIDRREQ, peerTID, peerSIDR(s)), Accepted)
	return s.one(Asked).Conn
}

func makeAnswered(t testing.TB, s *side) *Conn {
	k := makeAsked(t, s)
	must.Succeed(t, s.cm.Answer(0, k, mad.SIDRValid, 0x77, 1, nil))
	return k
}

// A cell is a message's effect in a state: its count, the answer (0: none), the next state, and
// the events.
type cell struct {
	drop   Drop
	answer mad.Attribute
	to     state
	told   string
}

// table has the cells with an effect. In all others the message is dropped because of the state.
var table = map[string]map[mad.Attribute]cell{
	"REQ sent": {
		mad.AttrMRA: {Accepted, 0, reqSent, "[]"},
		mad.AttrREJ: {Accepted, 0, released, "[ended released]"},
		mad.AttrREP: {Accepted, 0, repReceived, "[replied]"},
	},
	"REP received": {
		mad.AttrREP: {DropDuplicate, 0, repReceived, "[]"},
		mad.AttrREJ: {Accepted, 0, timeWait, "[ended]"},
	},
	"established, active": {
		mad.AttrREP:  {DropDuplicate, mad.AttrRTU, established, "[]"},
		mad.AttrREJ:  {Accepted, 0, timeWait, "[ended]"},
		mad.AttrDREQ: {Accepted, mad.AttrDREP, timeWait, "[ended]"},
		mad.AttrLAP:  {DropRefused, mad.AttrAPR, established, "[]"},
	},
	"established, active, in doubt": {
		mad.AttrREP:  {DropDuplicate, mad.AttrRTU, established, "[]"},
		mad.AttrREJ:  {Accepted, 0, timeWait, "[ended]"},
		mad.AttrDREQ: {Accepted, mad.AttrDREP, timeWait, "[ended]"},
		mad.AttrLAP:  {DropRefused, mad.AttrAPR, established, "[]"},
		mad.AttrAPR:  {Accepted, 0, timeWait, "[ended]"},
	},
	"DREQ sent": {
		mad.AttrREJ:  {Accepted, 0, timeWait, "[ended]"},
		mad.AttrDREQ: {Accepted, mad.AttrDREP, timeWait, "[ended]"}, // both sides at once
		mad.AttrDREP: {Accepted, 0, timeWait, "[ended]"},
	},
	"time-wait": {
		mad.AttrDREQ: {DropDuplicate, mad.AttrDREP, timeWait, "[]"},
	},
	"REQ received": {
		mad.AttrREQ: {DropDuplicate, mad.AttrMRA, reqReceived, "[]"},
		mad.AttrREJ: {Accepted, 0, released, "[ended released]"},
	},
	"REP sent": {
		mad.AttrREQ:  {DropDuplicate, mad.AttrREP, repSent, "[]"},
		mad.AttrMRA:  {Accepted, 0, repSent, "[]"},
		mad.AttrREJ:  {Accepted, 0, timeWait, "[ended]"},
		mad.AttrRTU:  {Accepted, 0, established, "[established]"},
		mad.AttrDREQ: {Accepted, mad.AttrDREP, timeWait, "[ended]"}, // the RTU was lost
	},
	"refused": {
		mad.AttrREQ: {DropDuplicate, mad.AttrREJ, refused, "[]"},
	},
	"established, passive": {
		mad.AttrREQ:  {DropDuplicate, 0, established, "[]"},
		mad.AttrRTU:  {DropDuplicate, 0, established, "[]"},
		mad.AttrREJ:  {Accepted, 0, timeWait, "[ended]"},
		mad.AttrDREQ: {Accepted, mad.AttrDREP, timeWait, "[ended]"},
		mad.AttrLAP:  {DropRefused, mad.AttrAPR, established, "[]"},
	},
	"SIDR_REQ sent": {
		mad.AttrSIDRREP: {Accepted, 0, released, "[resolved released]"},
	},
	"SIDR_REQ received": {
		mad.AttrSIDRREQ: {DropDuplicate, 0, sidrReqReceived, "[]"},
	},
	"SIDR_REP sent": {
		mad.AttrSIDRREQ: {DropDuplicate, mad.AttrSIDRREP, sidrRepSent, "[]"},
	},
	"gone": { // requests are answered, so that the peer need not wait
		mad.AttrMRA: {DropUnknown, 0, released, "[]"}, mad.AttrREJ: {DropUnknown, 0, released, "[]"}, mad.AttrRTU: {DropUnknown, 0, released, "[]"},
		mad.AttrREP: {DropUnknown, mad.AttrREJ, released, "[]"}, mad.AttrDREQ: {DropUnknown, mad.AttrDREP, released, "[]"},
		mad.AttrDREP: {DropUnknown, 0, released, "[]"}, mad.AttrLAP: {DropUnknown, mad.AttrAPR, released, "[]"}, mad.AttrSIDRREP: {DropUnknown, 0, released, "[]"},
		mad.AttrAPR: {DropUnknown, 0, released, "[]"},
	},
}

// begins reports whether a message starts something unrelated to the connection.
func begins(k *Conn, a mad.Attribute) bool {
	return a == mad.AttrREQ && (k.active || k.service != service) || a == mad.AttrSIDRREQ && (k.active || k.service != sidrIP)
}

func TestEachStateAndMessage(t *testing.T) {
	for _, r := range rows {
		for a := mad.AttrREQ; a <= mad.AttrAPR; a++ {
			t.Run(fmt.Sprintf("%s %v", r.name, a), func(t *testing.T) {
				_, s := two(t)
				k := r.make(t, s)
				if s.sent(); k.state != r.to {
					t.Fatalf("in %v", k.state)
				}
				if s.told(); begins(k, a) {
					return
				}
				want, ok := table[r.name][a]
				if !ok {
					want = cell{DropState, 0, r.to, "[]"}
				}
				s.hearsFrom(1, addrA, messages(s, k)[a], want.drop)
				if want.answer != 0 {
					s.says(want.answer)
				}
				s.silent()
				if got := fmt.Sprint(kinds(s.told())); got != want.told || k.state != want.to {
					t.Errorf("told %v, now %v; want %v, %v", got, k.state, want.told, want.to)
				}
			})
		}
	}
}

// A message with one wrong field is dropped, counted for this field, changes nothing, and gets no
// answer.
func TestMismatchedMessages(t *testing.T) {
	for _, r := range rows[:len(rows)-1] {
		for a := range table[r.name] {
			if a == mad.AttrREQ || a == mad.AttrSIDRREQ {
				continue // see TestRepeatedRequest
			}
			_, s := two(t)
			k := r.make(t, s)
			s.sent()
			s.told()
			before, timer := *k, k.deadline
			for _, wrong := range mismatches(s, k, a) {
				s.hearsFrom(1, wrong.from, wrong.d, wrong.want)
				s.silent()
				if es := s.told(); len(es) != 0 || k.state != before.state || k.deadline != timer || k.last != before.last {
					t.Errorf("%s, %v, wrong %v: told %v, now %v", r.name, a, wrong.want, kinds(es), k.state)
				}
			}
		}
	}
}

// A mismatch is a message with one wrong field.
type mismatch struct {
	from netip.Addr
	d    Datagram
	want Drop
}

// mismatches returns a message with each field wrong that identifies its connection.
func mismatches(s *side, k *Conn, a mad.Attribute) (ws []mismatch) {
	good := messages(s, k)[a]
	change := func(at int, want Drop) {
		d := good
		d.MAD[at] ^= 1
		ws = append(ws, mismatch{addrA, d, want})
	}
	ws = append(ws, mismatch{addrC, good, DropAddress})
	const data = mad.HeaderLen
	switch a {
	case mad.AttrMRA, mad.AttrREP, mad.AttrREJ, mad.AttrDREP, mad.AttrAPR:
		change(15, DropTransaction)
	case mad.AttrDREQ:
		change(data+10, DropQPN)
	case mad.AttrLAP:
		change(data+14, DropQPN)
	case mad.AttrSIDRREP:
		change(15, DropTransaction)
		change(data+19, DropMalformed) // another service
		return ws
	}
	if k.remoteID != 0 {
		change(data+3, DropUnknown)
	}
	return ws
}
