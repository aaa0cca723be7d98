// The counts of refused contexts and calls.

package gss

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A failing is a server with contexts that can fail, and a clock that can be advanced.
type failing struct {
	*rig
	offset        atomic.Int64
	p, soon, idle *handPeer
}

// A failure makes the server refuse one context or call.
type failure struct {
	what string
	do   func()
	want Reason
}

func newFailing(t *testing.T) *failing {
	f := &failing{}
	clock := func() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }
	f.rig = newRig(t, tcp, func(r *rig, g *ServerConfig, _ *transport.ServerConfig) {
		g.now, r.realm.now = clock, clock
		r.realm.life = 2 * time.Hour
		r.realm.fault = func(principal string) error {
			switch principal {
			case "late@TEST":
				return &Error{CredentialsExpired, 1, "expired", ReasonTicketTime}
			case "odd@TEST":
				return errors.New("no *Error")
			case "new@TEST":
				return &Error{Failure, 1, "a later mechanism's", reasons + 7}
			}
			return nil
		}
	})
	f.p, f.soon, f.idle = f.handContext("alice"), f.handContext("bob"), f.handContext("carol")
	must.Succeed(t, f.p.add(1), f.soon.add(1), f.idle.add(1))
	return f
}

func (f *failing) past(by time.Duration) { f.offset.Add(int64(by)) }

func (f *failing) token(principal string) []byte { return f.realm.token(principal, "0123456789abcdef") }

func asIs(*oncrpc.CallHeader) {}

// creations returns failures of messages that create a context.
func (f *failing) creations() []failure {
	init := func(token []byte, change func(h *oncrpc.CallHeader)) func() {
		return func() {
			h := f.p.header(&credential{message: messageInit}, 0)
			change(h)
			f.p.exchange(h, (&initArg{token}).EncodeXDR)
		}
	}
	return []failure{
		{"a short token", init([]byte("short"), asIs), ReasonToken},
		{"arguments that do not decode", func() {
			f.p.exchange(f.p.header(&credential{message: messageInit}, 0), func(e *xdr.Encoder) { e.Uint32(99) })
		}, ReasonToken},
		{"a wrong token", init([]byte(strings.Repeat("x", 64)), asIs), ReasonAuthenticator},
		{"an expired ticket", init(f.token("late@TEST"), asIs), ReasonTicketTime},
		{"an error without a reason", init(f.token("odd@TEST"), asIs), ReasonOther},
		{"a reason that is unknown", init(f.token("new@TEST"), asIs), ReasonOther},
		{"an unmapped principal", init(f.token("mallory@TEST"), asIs), ReasonUser},
		{"INIT with a verifier", init(f.token("alice@TEST"), func(h *oncrpc.CallHeader) { h.Verf.Body = []byte{1} }), ReasonVerifier},
		{"INIT of procedure 1", init(f.token("alice@TEST"), func(h *oncrpc.CallHeader) { h.Proc = 1 }), ReasonCredential},
		{"CONTINUE_INIT of nothing", func() {
			f.p.exchange(f.p.header(&credential{message: messageContinue, handle: make([]byte, handleLen)}, 0), (&initArg{f.token("alice@TEST")}).EncodeXDR)
		}, ReasonUnknown},
	}
}

// calls returns failures of calls in contexts. The last two advance the clock.
func (f *failing) calls(t *testing.T) []failure {
	p := f.p
	call := func(seq uint32, change func(h *oncrpc.CallHeader)) func() {
		return func() {
			h := p.data(seq, transport.ServiceNone, tAdd)
			change(h)
			p.exchange(h, words{1, 2}.EncodeXDR)
		}
	}
	return []failure{
		{"a short credential", call(2, func(h *oncrpc.CallHeader) { h.Cred.Body = h.Cred.Body[:8] }), ReasonCredential},
		{"an unknown context", func() {
			p.exchange(p.sign(p.header(&credential{seq: 2, service: transport.ServiceNone, handle: make([]byte, handleLen)}, tAdd)), words{1, 2}.EncodeXDR)
		}, ReasonUnknown},
		{"a wrong verifier", call(2, func(h *oncrpc.CallHeader) { h.Verf.Body[0] ^= 1 }), ReasonVerifier},
		{"no verifier", call(2, func(h *oncrpc.CallHeader) { h.Verf = oncrpc.OpaqueAuth{} }), ReasonVerifier},
		{"the last number", call(maxSeq, asIs), ReasonSequence},
		{"a used number", func() {
			p.send(encode(p.data(1, transport.ServiceNone, tAdd), words{1, 2}.EncodeXDR))
			must.Succeed(t, p.add(3)) // its reply comes after the used number's call was dropped
		}, ReasonSequence},
		{"a changed body", func() {
			p.exchange(p.data(4, transport.ServiceIntegrity, tAdd), p.args(transport.ServiceIntegrity, 5, words{1, 2}.EncodeXDR))
		}, ReasonBody},
		{"an idle context", func() {
			f.past(50 * time.Minute)
			must.Succeed(t, p.add(6), f.soon.add(2))
			f.past(20 * time.Minute)
			_ = f.idle.add(2)
		}, ReasonIdle},
		{"the ticket's end", func() {
			f.past(30 * time.Minute)
			must.Succeed(t, f.soon.add(3))
			f.past(21 * time.Minute)
			_ = f.soon.add(4)
		}, ReasonExpired},
	}
}

// TestFailuresAreCounted: each refused context and call counts once, for its reason.
func TestFailuresAreCounted(t *testing.T) {
	f := newFailing(t)
	before := f.gss.Figures()
	for _, step := range append(f.creations(), f.calls(t)...) {
		step.do()
		after := f.gss.Figures()
		for _, r := range Reasons() {
			want := before.Failures[r]
			if r == step.want {
				want++
			}
			if got := after.Failures[r]; got != want {
				t.Errorf("%s: %d for the reason %v, want %d", step.what, got, r, want)
			}
		}
		before = after
	}
}

// TestReasonNames: each reason has its own name, as metrics need it.
func TestReasonNames(t *testing.T) {
	seen := map[string]Reason{}
	for _, r := range Reasons() {
		name := r.String()
		if other, ok := seen[name]; ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("reason %d: %q, as %d", r, name, other)
		}
		seen[name] = r
	}
	must.Equal(t, "an unknown reason", (reasons + 1).String(), "other")
}
