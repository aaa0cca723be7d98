// Contexts with MIT's library at the other end, as initiator and as acceptor: all tokens in both
// directions.

package krb5

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A peer is a program with one end of a context in MIT's library, through python3-gssapi.
type peer struct {
	in  io.Writer
	out *bufio.Reader
}

// startPeer starts the program as "initiate" or "accept".
func startPeer(t *testing.T, r aRealm, usage string) *peer {
	t.Helper()
	if _, err := os.Stat("/usr/lib/python3/dist-packages/gssapi"); err != nil {
		machine.Skip(t, "needs python3-gssapi")
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/peer.py", usage)
	cmd.Env = append(r.Env("FILE:"+r.ccache), "KRB5_KTNAME="+r.keytab)
	cmd.Stderr = os.Stderr
	in, out, end, err := machine.Start(cmd)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = end() })
	return &peer{in, bufio.NewReader(out)}
}

// call runs a command and returns its output.
func (p *peer) call(command string, args ...[]byte) ([]byte, error) {
	line := command
	for _, a := range args {
		line += fmt.Sprintf(" -%x", a)
	}
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return nil, err
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	status, text, _ := strings.Cut(strings.TrimSuffix(answer, "\n"), " ")
	b, err := hex.DecodeString(text)
	if err == nil && status != "ok" {
		err = errors.New(string(b))
	}
	return b, err
}

func TestInitiatorOfMIT(t *testing.T) {
	conformance.Proves(t, "R4121-001", "R4121-036", "R4121-038", "R4121-040", "R4121-048", "R4121-049")
	eachEnctype(t, func(t *testing.T, r aRealm) {
		p := startPeer(t, r, "initiate")
		token, err := p.call("step")
		must.Succeed(t, err)
		got, reply, err := r.acceptor(t).Accept(token)
		must.Succeed(t, err)
		_, err = p.call("step", reply)
		must.Succeed(t, err)
		exchangeTokens(t, p, got.(*Context))
	})
}

func TestAcceptorOfMIT(t *testing.T) {
	conformance.Proves(t, "R4121-001", "R4121-003", "R4121-034", "R4121-036", "R4121-038", "R4121-040", "R4121-048", "R4121-049")
	eachEnctype(t, func(t *testing.T, r aRealm) {
		p := startPeer(t, r, "accept")
		i := r.conf.Cache(r.ccache, -1).Initiator("nfs", "localhost")
		token, err := i.Start(t.Context())
		must.Succeed(t, err)
		reply, err := p.call("step", token)
		must.Succeed(t, err)
		got, err := i.Finish(reply)
		must.Succeed(t, err)
		if name, err := p.call("peer"); err != nil || string(name) != "alice@EXAMPLE.TEST" {
			t.Errorf("MIT's library names the initiator %s, %v", name, err)
		}
		exchangeTokens(t, p, got.(*Context))
	})
}

// exchangeTokens sends messages in both directions, with lengths around those of blocks and pieces.
func exchangeTokens(t *testing.T, p *peer, c *Context) {
	t.Helper()
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 4096, piece - 33, piece, piece + 1, 100001} {
		message := bytes.Repeat([]byte{byte(n), 1}, n)[:n]
		half := n / 2
		if _, err := p.call("verify", message, c.MIC(nil, message[:half], message[half:])); err != nil {
			t.Errorf("%d bytes: our MIC: %v", n, err)
		}
		if got, err := p.call("unwrap", c.Wrap(nil, message[:half], message[half:])); err != nil || !bytes.Equal(got, append([]byte{1}, message...)) {
			t.Errorf("%d bytes: our Wrap: %v", n, err)
		}
		if got, err := p.call("unwrap", c.WrapClear(nil, message[:half], message[half:])); err != nil || !bytes.Equal(got, append([]byte{0}, message...)) {
			t.Errorf("%d bytes: our clear Wrap: %v", n, err)
		}
		mic, err := p.call("mic", message)
		if err = errors.Join(err, c.VerifyMIC(mic, message[:half], message[half:])); err != nil {
			t.Errorf("%d bytes: MIT's MIC: %v", n, err)
		}
		token, err := p.call("wrap", message)
		must.Succeed(t, err)
		if got, err := c.Unwrap(token); err != nil || !bytes.Equal(got, message) {
			t.Errorf("%d bytes: MIT's Wrap: %v", n, err)
		}
		token, err = p.call("wrapclear", message)
		must.Succeed(t, err)
		if got, sealed, err := c.UnwrapAny(token); err != nil || sealed || !bytes.Equal(got, message) {
			t.Errorf("%d bytes: MIT's clear Wrap: sealed %v, %v", n, sealed, err)
		}
	}
}

// TestRefusalOfMIT: MIT's initiator reads our KRB-ERROR.
func TestRefusalOfMIT(t *testing.T) {
	conformance.Proves(t, "R4121-009")
	r := newRealm(t)
	p := startPeer(t, r, "initiate")
	token, err := p.call("step")
	must.Succeed(t, err)
	a := r.acceptor(t)
	_, _, err = a.Accept(bytes.Clone(token))
	must.Succeed(t, err)
	_, reply, err := a.Accept(token)
	if err == nil || reply == nil {
		t.Fatalf("a replay is accepted: %v", err)
	}
	if _, err := p.call("step", reply); err == nil || !strings.Contains(err.Error(), "replay") {
		t.Errorf("MIT's library reads our KRB-ERROR as %v, want a replay", err)
	}
}
