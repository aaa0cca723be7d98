// Every kind of port is recognized within the time limit.

package portprobe

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// listen accepts connections and calls act for each.
func listen(t *testing.T, act func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go act(c)
		}
	}()
	return l.Addr().String()
}

// says returns a service that sends text, either first or after the client's first bytes.
func says(text string, first bool) func(net.Conn) {
	return func(c net.Conn) {
		if !first {
			c.Read(make([]byte, 1024))
		}
		c.Write([]byte(text))
		c.Close()
	}
}

// dialLate ignores the context, so it connects even after the wait is over. On a busy machine a
// short wait would otherwise mean Filtered.
func dialLate(_ context.Context, network, addr string) (net.Conn, error) {
	return net.Dial(network, addr)
}

func TestIdentify(t *testing.T) {
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/m", FS: memfs.New(memfs.Options{})}}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	service, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("srv.Start: %v", err)
	}
	t.Cleanup(func() { service.Shutdown(context.Background()); srv.Close() })
	reject := mpa.AppendFrame(nil, &mpa.Frame{Reply: true, Reject: true, Rev: mpa.Rev2, HasEnhanced: true})
	for addr, want := range map[string]Kind{
		service.TCPAddr.String():                               RPC,
		service.RDMAAddr.String():                              MPA,
		fmt.Sprint("127.0.0.1:", machine.Port(t)):              Refused,
		listen(t, func(net.Conn) {}):                           Silent,
		listen(t, func(c net.Conn) { c.Close() }):              Closes,
		listen(t, says("SSH-2.0-OpenSSH_9.2\r\n", true)):       SSH,
		listen(t, says("HTTP/1.1 400 Bad Request\r\n", false)): HTTP,
		listen(t, says("\x15\x03\x01\x00\x02\x02\x46", false)): TLS,
		listen(t, says("220 mail\r\n", true)):                  Unknown,
		listen(t, says(string(reject), false)):                 MPA,
	} {
		wait, dial := 2*time.Minute, new(net.Dialer).DialContext
		if want == Silent {
			wait, dial = Wait, dialLate
		}
		for _, expected := range []Kind{Unknown, RPC, MPA} {
			if got := Identify(t.Context(), wait, dial, addr, expected); got.Kind != want {
				t.Errorf("%s is %v (%v), want %v, where %v is expected", addr, got.Kind, got.Err, want, expected)
			}
		}
	}
}

// TestExpectedIsAskedFirst: a service of the expected kind gets no request in another protocol.
func TestExpectedIsAskedFirst(t *testing.T) {
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/m", FS: memfs.New(memfs.Options{})}}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	service, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("srv.Start: %v", err)
	}
	t.Cleanup(func() { service.Shutdown(context.Background()); srv.Close() })
	for expected, addr := range map[Kind]string{RPC: service.TCPAddr.String(), MPA: service.RDMAAddr.String()} {
		var connections atomic.Int32
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				connections.Add(1)
			}
			return c, err
		}
		if r := Identify(t.Context(), 10*time.Minute, dial, addr, expected); r.Kind != expected || connections.Load() != 1 {
			t.Errorf("%v after %d connections, want %v", r.Kind, connections.Load(), expected)
		}
	}
}

// MPAStart returns the fields of the peer's Reply.
func TestMPAStart(t *testing.T) {
	dev := iwarp.Open(rnic.DeviceConfig{MaxIRD: 7, CRC: rnic.CRCOn})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	go func() {
		req, err := l.Accept(t.Context())
		if err != nil {
			return
		}
		if c, err := rpcrdma.Accept(dev, req, rpcrdma.Config{InlineSize: 8192}); err == nil {
			<-c.Done()
		}
	}()
	r := MPAStart(t.Context(), new(net.Dialer).DialContext, l.Addr().String())
	p, ok := rpcrdma.ParsePrivateData(r.Reply.PrivateData)
	if r.Kind != MPA || r.Reply.Rev != mpa.Rev2 || !r.Reply.CRC || r.Reply.Enhanced.IRD != 7 {
		t.Errorf("%+v, want MPA revision 2 with CRCs and an IRD of 7", r)
	}
	if !ok || p.RecvSize != 8192 {
		t.Errorf("private data %+v, %v, want receives of 8192 bytes", p, ok)
	}
}

// A host that does not answer at all costs the time limit of Identify, not TCP's.
func TestIdentifyIsBounded(t *testing.T) {
	asked := make(chan struct{}, 8)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r := Identify(ctx, time.Minute, dial, "192.0.2.1:20049", Unknown); r.Kind != Filtered || len(asked) != 3 {
		t.Errorf("%v, %d attempts", r.Kind, len(asked))
	}
}
