// The controller with an emulated instrument in C on libtirpc, found by Debian's rpcbind.

package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// startInstrument compiles and starts the instrument, beside a rpcbind, on a network of its own.
func startInstrument(t *testing.T) {
	t.Helper()
	for _, args := range []string{"link add v0 type veth peer name v1", "addr add 192.0.2.1/24 broadcast + dev v0", "link set v0 up", "link set v1 up"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v, %s", args, err, out)
		}
	}
	start := func(cmd *exec.Cmd) {
		t.Helper()
		must.Succeed(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	start(exec.Command("rpcbind", "-f"))
	must.Become(t, "rpcbind answers", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:111")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	program := filepath.Join(t.TempDir(), "instrument")
	if out, err := exec.Command("gcc-12", "-O1", "-Wall", "-I/usr/include/tirpc", "-o", program, "testdata/instrument.c", "-ltirpc").CombinedOutput(); err != nil {
		t.Fatalf("gcc-12: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	start(cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("the instrument says %q, %v", line, err)
	}
}

// TestInstrument: the controller finds an instrument by broadcast. It gets a long answer, aborts a
// read, and gets interrupts over a connection opened by the instrument.
func TestInstrument(t *testing.T) {
	if !machine.Apart(t, "rpcbind", "gcc-12", "ip") {
		return
	}
	if _, err := os.Stat("/usr/include/tirpc/rpc/rpc.h"); err != nil {
		machine.Skip(t, "needs libtirpc-dev")
	}
	startInstrument(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var host netip.Addr
	must.Succeed(t, discover(ctx, func(at netip.Addr) bool {
		host = at
		return false
	}))
	must.Equal(t, "address", host.String(), "192.0.2.1")
	answer, err := ask(ctx, host.String(), "*IDN?")
	must.Succeed(t, err)
	must.Equal(t, "answer", answer, "EMULATED,LIBTIRPC,0,1\n")

	i, err := dial(ctx, host.String(), "inst0")
	must.Succeed(t, err)
	// This instrument takes the last part of a long message for a separate message, and does not
	// answer it.
	must.Succeed(t, i.write(ctx, []byte("*IDN?"+strings.Repeat(" ", 3000))))
	if answer, err := i.read(ctx, time.Millisecond); !errors.Is(err, deviceError(15)) {
		t.Errorf("answer %q, %v; want a timeout (15)", answer, err)
	}
	request, err := i.onRequest(ctx)
	must.Succeed(t, err)
	for range 3 {
		must.Succeed(t, i.write(ctx, []byte("SRQ\n")))
		select {
		case <-request:
		case <-ctx.Done():
			t.Fatal("no interrupt")
		}
	}

	must.Succeed(t, i.write(ctx, []byte("WAIT\n")))
	read := make(chan error, 1)
	go func() {
		_, err := i.read(ctx, time.Hour)
		read <- err
	}()
	must.Succeed(t, i.abortNow(ctx))
	if err := <-read; !errors.Is(err, errAborted) {
		t.Errorf("the read ends with %v, want %v", err, errAborted)
	}
	must.Succeed(t, i.close(ctx))
}

// TestInterruptsAreChecked: only a request with the right handle is an interrupt.
func TestInterruptsAreChecked(t *testing.T) {
	s := &interrupts{handle: []byte("secret"), request: make(chan struct{}, 1)}
	var refused *transport.AuthError
	if err := s.IntrSrq(nil, &SrqParms{Handle: []byte("guess")}); !errors.As(err, &refused) || refused.Stat != oncrpc.AuthTooWeak || len(s.request) != 0 {
		t.Errorf("a wrong handle: %v, %d requests; want none", err, len(s.request))
	}
	for range 2 { // the second does not wait
		must.Succeed(t, s.IntrSrq(nil, &SrqParms{Handle: []byte("secret")}))
	}
	must.Equal(t, "requests", len(s.request), 1)
}

// FuzzMessages: any bytes are refused, or decode to a value that survives encoding and decoding.
func FuzzMessages(f *testing.F) {
	makers := []func() interface {
		xdr.Marshaler
		xdr.Unmarshaler
	}{
		func() interface {
			xdr.Marshaler
			xdr.Unmarshaler
		} {
			return new(CreateLinkResp)
		},
		func() interface {
			xdr.Marshaler
			xdr.Unmarshaler
		} {
			return new(ReadResp)
		},
		func() interface {
			xdr.Marshaler
			xdr.Unmarshaler
		} {
			return new(SrqParms)
		},
	}
	f.Add(uint8(1), []byte{0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 'x', 0, 0, 0})
	f.Add(uint8(0), make([]byte, 16))
	f.Add(uint8(2), []byte{0, 0, 0, 41})
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m, back := makers[int(kind)%len(makers)](), makers[int(kind)%len(makers)]()
		d := xdr.NewDecoder(b)
		if m.DecodeXDR(d); d.Err() != nil {
			return
		}
		once, twice := xdr.NewEncoder(nil), xdr.NewEncoder(nil)
		m.EncodeXDR(once)
		back.DecodeXDR(xdr.NewDecoder(once.Bytes()))
		back.EncodeXDR(twice)
		if string(once.Bytes()) != string(twice.Bytes()) {
			t.Errorf("%x becomes %x, then %x", b, once.Bytes(), twice.Bytes())
		}
	})
}
