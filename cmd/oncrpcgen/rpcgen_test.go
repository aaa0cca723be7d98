// Tests with Debian's rpcgen and libtirpc: their C client calls a generated server, and a generated
// client calls their C server, over TCP and UDP.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/sample"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/testdata/peer"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const peerFile = "testdata/peer/peer.x"

// compileC runs rpcgen and the C compiler, and returns the folder with the programs.
func compileC(t *testing.T) string {
	cc := "gcc"
	if _, err := exec.LookPath(cc); err != nil {
		cc = "gcc-12"
	}
	for _, tool := range []string{"rpcgen", "cpp", cc} {
		if _, err := exec.LookPath(tool); err != nil {
			machine.Skip(t, "no "+tool)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{peerFile, "testdata/c/server.c", "testdata/c/client.c"} {
		b, err := os.ReadFile(name)
		must.Succeed(t, err, os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o666))
	}
	const flags = "-w -I/usr/include/tirpc"
	for _, line := range []string{
		"rpcgen -h -o peer.h peer.x", "rpcgen -c -o peer_xdr.c peer.x", "rpcgen -l -o peer_clnt.c peer.x", "rpcgen -m -o peer_svc.c peer.x",
		cc + " " + flags + " -o server server.c peer_xdr.c peer_svc.c -ltirpc",
		cc + " " + flags + " -o client client.c peer_xdr.c peer_clnt.c -ltirpc",
	} {
		words := strings.Fields(line)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	return dir
}

// randomEverything returns random messages for the procedure ECHO.
func randomEverything(t *testing.T, n int) (list [][]byte) {
	r := rand.New(rand.NewPCG(30, 5))
	for _, u := range model(t, peerFile, check.Options{}).Types {
		for u.X == "everything" && len(list) < n {
			list = append(list, sample.Append(nil, r, u))
		}
	}
	return list
}

// A peerServer serves the same procedures as the C server, with the same results.
type peerServer struct{ last atomic.Int32 }

func (*peerServer) Echo(_ *transport.Call, args, res *peer.Everything) error {
	copied := *args
	copied.Bytes = bytes.Clone(args.Bytes)
	*res = copied
	return nil
}

func (*peerServer) Sum(_ *transport.Call, args peer.Matrix, res *int32) error {
	for _, n := range args {
		*res += n
	}
	return nil
}

func (*peerServer) Color(_ *transport.Call, args peer.Color, res *peer.Name) error {
	*res = strings.ToLower(args.String())
	return nil
}

func (s *peerServer) Next(_ *transport.Call, res *int32) error {
	*res = s.last.Add(1)
	return nil
}

// startC starts the C server, and returns its address.
func startC(t *testing.T, dir, network string) string {
	server := exec.Command(filepath.Join(dir, "server"), network)
	server.Stderr = os.Stderr
	_, out, end, err := machine.Start(server)
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, end()) })
	port, err := bufio.NewReader(out).ReadString('\n')
	must.Succeed(t, err)
	return net.JoinHostPort("127.0.0.1", strings.TrimSpace(port))
}

// callEach calls each procedure through the generated client.
func callEach(t *testing.T, conn *transport.Client, messages [][]byte) {
	c := peer.NewPeerV1Client(conn)
	for _, in := range messages {
		var args peer.Everything
		d := xdr.NewDecoder(in)
		args.DecodeXDR(d)
		must.Succeed(t, d.Err())
		res, err := c.Echo(t.Context(), &args)
		must.Succeed(t, err)
		if got := whole(res); !bytes.Equal(got, in) {
			t.Fatalf("ECHO: got %x, want %x", got, in)
		}
	}
	sum, err := c.Sum(t.Context(), peer.Matrix{1, 20, 300, -4000})
	must.Succeed(t, err)
	must.Equal(t, "SUM", sum, -3679)
	for color, want := range map[peer.Color]string{peer.RED: "red", peer.GREEN: "green", peer.DARK: "dark"} {
		got, err := c.Color(t.Context(), color)
		must.Succeed(t, err)
		must.Equal(t, "COLOR", got, want)
	}
	must.Succeed(t, c.Null(t.Context()))
	for i := range int32(3) {
		got, err := c.Next(t.Context())
		must.Succeed(t, err)
		must.Equal(t, "NEXT", got, i+1)
	}
}

// TestClientOfC: the generated client calls the C server, over UDP also when the first reply to
// each call is lost.
func TestClientOfC(t *testing.T) {
	dir := compileC(t)
	t.Run("TCP", func(t *testing.T) {
		conn, err := transport.DialTCP(t.Context(), startC(t, dir, "tcp"), transport.ClientConfig{CallTimeout: patience})
		must.Succeed(t, err)
		defer conn.Close()
		callEach(t, conn, randomEverything(t, 200))
	})
	t.Run("UDP", func(t *testing.T) {
		conn, err := transport.DialUDP(t.Context(), startC(t, dir, "udp"), transport.ClientConfig{CallTimeout: patience})
		must.Succeed(t, err)
		defer conn.Close()
		callEach(t, conn, randomEverything(t, 200))
	})
	t.Run("UDP with lost replies", func(t *testing.T) {
		relay := newRelay(t, startC(t, dir, "udp"))
		conn, err := transport.DialUDP(t.Context(), relay.addr(), transport.ClientConfig{Resend: lossyResend, CallTimeout: patience})
		must.Succeed(t, err)
		defer conn.Close()
		callEach(t, conn, randomEverything(t, 3))
		relay.check(t, 3+1+3+1+3)
	})
}

// callByC runs the C client, which calls each procedure.
func callByC(t *testing.T, dir, network, addr string, resend time.Duration, messages [][]byte) {
	_, port, err := net.SplitHostPort(addr)
	must.Succeed(t, err)
	var in, want strings.Builder
	for _, b := range messages {
		fmt.Fprintln(&in, hex.EncodeToString(b))
		fmt.Fprintln(&want, hex.EncodeToString(b))
	}
	fmt.Fprint(&want, "-3679 dark\n1\n2\n3\n")
	client := exec.Command(filepath.Join(dir, "client"), port, network, fmt.Sprint(resend.Milliseconds()))
	client.Stdin = strings.NewReader(in.String())
	var stderr bytes.Buffer
	client.Stderr = &stderr
	got, err := client.Output()
	if err != nil {
		t.Fatalf("the client: %v\n%s", err, &stderr)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want.String(), "\n")
	must.Equal(t, "lines", len(gotLines), len(wantLines))
	for i, line := range gotLines {
		if line != wantLines[i] {
			t.Fatalf("line %d: got %s, want %s", i, line, wantLines[i])
		}
	}
}

// serve starts the generated server, and returns its addresses.
func serve(t *testing.T) (tcp, udp string) {
	server := transport.NewServer(transport.ServerConfig{}, peer.NewPeerV1Program(&peerServer{}))
	l, err := transport.Listen("127.0.0.1:0")
	must.Succeed(t, err)
	socket, err := transport.ListenUDP("127.0.0.1:0")
	must.Succeed(t, err)
	served := make(chan error, 2)
	go func() { served <- server.ServeTCP(l) }()
	go func() { served <- server.ServeUDP(socket) }()
	t.Cleanup(func() {
		must.Succeed(t, server.Shutdown(context.Background()))
		<-served
		<-served
	})
	return l.Addr().String(), socket.LocalAddr().String()
}

// TestServerOfC: the C client calls the generated server, over UDP also when the first reply to
// each call is lost.
func TestServerOfC(t *testing.T) {
	dir := compileC(t)
	t.Run("TCP", func(t *testing.T) {
		tcp, _ := serve(t)
		callByC(t, dir, "tcp", tcp, 0, randomEverything(t, 200))
	})
	t.Run("UDP", func(t *testing.T) {
		_, udp := serve(t)
		callByC(t, dir, "udp", udp, time.Second, randomEverything(t, 200))
	})
	t.Run("UDP with lost replies", func(t *testing.T) {
		_, udp := serve(t)
		relay := newRelay(t, udp)
		callByC(t, dir, "udp", relay.addr(), lossyResend, randomEverything(t, 3))
		relay.check(t, 3+1+1+1+3)
	})
}
