// Programs by Debian's rpcgen and libtirpc: they call a generated server, and a generated client
// calls them, over TCP.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestClientOfC: the generated client calls the C server.
func TestClientOfC(t *testing.T) {
	server := exec.Command(filepath.Join(compileC(t), "server"))
	server.Stderr = os.Stderr
	_, out, end, err := machine.Start(server)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, end()) }()
	port, err := bufio.NewReader(out).ReadString('\n')
	must.Succeed(t, err)
	conn, err := transport.DialTCP(t.Context(), net.JoinHostPort("127.0.0.1", strings.TrimSpace(port)), transport.ClientConfig{CallTimeout: 10 * time.Minute})
	must.Succeed(t, err)
	defer conn.Close()
	c := peer.NewPeerV1Client(conn)
	for _, in := range randomEverything(t, 200) {
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
}

// A peerServer serves the procedures as the C server does.
type peerServer struct{}

func (peerServer) Echo(_ *transport.Call, args, res *peer.Everything) error {
	copied := *args
	copied.Bytes = bytes.Clone(args.Bytes)
	*res = copied
	return nil
}

func (peerServer) Sum(_ *transport.Call, args peer.Matrix, res *int32) error {
	for _, n := range args {
		*res += n
	}
	return nil
}

func (peerServer) Color(_ *transport.Call, args peer.Color, res *peer.Name) error {
	*res = strings.ToLower(args.String())
	return nil
}

// TestServerOfC: the C client calls the generated server.
func TestServerOfC(t *testing.T) {
	dir := compileC(t)
	server := transport.NewServer(transport.ServerConfig{}, peer.NewPeerV1Program(peerServer{}))
	l, err := transport.Listen("127.0.0.1:0")
	must.Succeed(t, err)
	served := make(chan error, 1)
	go func() { served <- server.ServeTCP(l) }()
	defer func() {
		must.Succeed(t, server.Shutdown(context.Background()))
		<-served
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.Succeed(t, err)
	messages := randomEverything(t, 200)
	var in, want strings.Builder
	for _, b := range messages {
		fmt.Fprintln(&in, hex.EncodeToString(b))
		fmt.Fprintln(&want, hex.EncodeToString(b))
	}
	fmt.Fprintln(&want, "-3679 dark")
	client := exec.Command(filepath.Join(dir, "client"), port)
	client.Stdin = strings.NewReader(in.String())
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, err := client.StdoutPipe()
	must.Succeed(t, err, client.Start())
	got, err := io.ReadAll(out)
	must.Succeed(t, err)
	if err := client.Wait(); err != nil {
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
