// Errors about unusable servers: each names the cause and the remedy.

package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TestWrongPorts: the error names the service on the port, and the path that would work.
func TestWrongPorts(t *testing.T) {
	rdma := nfsclient.Target{Transport: nfsclient.RDMA, Host: "h", Path: "/e"}
	tcp := rdma
	tcp.Transport = nfsclient.TCP
	for _, c := range []struct {
		t    nfsclient.Target
		k    portprobe.Kind
		want []string
	}{
		{rdma, portprobe.RPC, []string{"port 20049 is not RDMA but ONC RPC over TCP", "use nfs://h/e", "(20049)"}},
		{tcp, portprobe.MPA, []string{"port 2049 is the RDMA port", "use nfsrdma://h/e", "(2049)"}},
		{rdma, portprobe.SSH, []string{"port 20049 is SSH, not NFS"}},
		{tcp, portprobe.HTTP, []string{"port 2049 is HTTP, not NFS"}},
		{tcp, portprobe.TLS, []string{"is TLS"}},
		{tcp, portprobe.Closes, []string{"hung up on the first message", "its TCP port", "nfsrdma doctor nfs://h/e"}},
		{rdma, portprobe.Unknown, []string{"port 20049 speaks another protocol"}},
	} {
		got := wrongPort(c.t, c.k)
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%v at %v: %q has no %q", c.k, c.t, got, part)
			}
		}
	}
	for _, k := range []portprobe.Kind{portprobe.Refused, portprobe.Filtered, portprobe.Silent} {
		if got := wrongPort(rdma, k) + wrongPort(tcp, k); got != "" {
			t.Errorf("%v: %q, though nobody knows what is there", k, got)
		}
	}
	if got := wrongPort(rdma, portprobe.MPA) + wrongPort(tcp, portprobe.RPC); got != "" {
		t.Errorf("the right ports: %q", got)
	}
}

// TestFlavorCures: a flavor that cannot be used has its reason, or the remedy.
func TestFlavorCures(t *testing.T) {
	const sys, krb5 = oncrpc.FlavorSys, oncrpc.FlavorKrb5
	for want, e := range map[string]*nfsclient.FlavorError{
		"the server wants sec=krb5: krb5: this program has no Kerberos, so have it exported with sec=sys too (exports(5))": {Offered: []oncrpc.Flavor{krb5}, Err: fmt.Errorf("krb5: %w", nfsclient.ErrNoKerberos)},
		"the server wants sec=krb5: krb5: no ticket": {Offered: []oncrpc.Flavor{krb5}, Err: errors.New("krb5: no ticket")},
		"the server wants sec=sys, and not sec=krb5: give one of its flavors, or export it with one of yours (exports(5))": {Offered: []oncrpc.Flavor{sys}, Wanted: []oncrpc.Flavor{krb5}},
		"the server wants sec=3, and this client speaks none of them: export it with sec=sys or sec=krb5 (exports(5))":     {Offered: []oncrpc.Flavor{3}},
	} {
		s := newSession(t, new(strings.Builder))
		err := s.explainMount(t.Context(), nil, nfsclient.Target{Host: "h", Path: "/x"}, nil, false, fmt.Errorf("mount: %w", e))
		if got := err.Error(); !strings.HasSuffix(got, "h/x: "+want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s := newSession(t, new(strings.Builder))
	err := s.explainMount(t.Context(), nil, nfsclient.Target{Host: "h", Path: "/x"}, nil, false, &transport.AuthError{Stat: oncrpc.AuthTooWeak})
	if got, want := err.Error(), "its log says what it demands: --xprtsec tls, --xprtsec mtls or --sec krb5"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

// TestServerArguments: an advised argument leads to the same server.
func TestServerArguments(t *testing.T) {
	for _, arg := range []string{"h:/e", "nfsrdma://h:77/e", "nfs://h/e", "nfs://h:88/e", "[::1]:/e", "nfsrdma://[::1]:77/e", "nfs://[::1]/e"} {
		t1, err := nfsclient.ParseTarget(arg)
		if err != nil {
			t.Fatalf("ParseTarget: %v", err)
		}
		t2, err := nfsclient.ParseServer(serverArg(t1))
		if err != nil || t2.Host != t1.Host || t2.Addr() != t1.Addr() || t2.Transport != t1.Transport {
			t.Errorf("%s becomes %s, which is %+v, %v", arg, serverArg(t1), t2, err)
		}
	}
}

// TestFlagsThatCannotBe: each invalid flag is named with its value; valid ones reach the client.
func TestFlagsThatCannotBe(t *testing.T) {
	good := Flags{NConnect: 2, CRC: "auto", ConnectTimeout: time.Second, MountPort: 635}
	s := &Session{Stderr: new(strings.Builder), Flags: good}
	target := nfsclient.Target{Transport: nfsclient.TCP, Host: "h"}
	o, err := s.Options(target)
	if err != nil || o.Conns != 2 || o.MountPort != 635 {
		t.Errorf("Options: %v, %d connections, MOUNT at port %d, want 2, 635", err, o.Conns, o.MountPort)
	}
	if o.Transport != nfsclient.TCP || o.CallTimeout != transport.Hard {
		t.Errorf("transport %v, call timeout %v, want %v, %v", o.Transport, o.CallTimeout, nfsclient.TCP, transport.Hard)
	}
	s.Flags.Timeout = time.Minute
	if o, err = s.Options(target); err != nil || o.CallTimeout != time.Minute {
		t.Errorf("--timeout 1m is %v, %v", o.CallTimeout, err)
	}
	for part, set := range map[string]func(*Flags){
		"--nconnect 0:": func(f *Flags) { f.NConnect = 0 }, "--nconnect -3:": func(f *Flags) { f.NConnect = -3 },
		"--mount-port 65536": func(f *Flags) { f.MountPort = 65536 }, "--mount-port -1": func(f *Flags) { f.MountPort = -1 },
		"--timeout -1s": func(f *Flags) { f.Timeout = -time.Second }, "--connect-timeout 0s": func(f *Flags) { f.ConnectTimeout = 0 },
		"--connect-timeout -1s": func(f *Flags) { f.ConnectTimeout = -time.Second }, `--crc "ON"`: func(f *Flags) { f.CRC = "ON" }, `--crc ""`: func(f *Flags) { f.CRC = "" },
	} {
		s.Flags = good
		set(&s.Flags)
		if _, err := s.Options(target); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}
