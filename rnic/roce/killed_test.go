// A killed peer, which sends no message: its end is detected soon, with or without a restart.

package roce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// victimAt makes this program the victim, at the named address; victimState is its directory for
// connections.
const (
	victimAt    = "NFSRDMA_ROCE_VICTIM"
	victimState = "NFSRDMA_ROCE_VICTIM_STATE"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(victimAt); at != "" {
		fmt.Fprintln(os.Stderr, beVictim(at))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beVictim accepts one connection, and does nothing until it is killed, or its parent is gone.
func beVictim(at string) error {
	dev := OpenWith(rnic.DeviceConfig{}, Options{State: os.Getenv(victimState)})
	l, err := dev.Listen("udp", at)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	req, err := l.Accept(context.Background())
	if err != nil {
		return err
	}
	cq := dev.NewCQ(16)
	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{Service: rnic.RC, SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
	if err != nil {
		return err
	}
	if err := req.Accept(qp, rnic.ConnParams{}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// victim starts the peer, and connects to it.
func victim(t *testing.T) (a *side, at netip.AddrPort, kill func()) {
	t.Helper()
	_, host := hosts(t)
	at = netip.AddrPortFrom(host, service)
	cmd := exec.Command(os.Args[0])
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), victimAt+"="+at.String())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
		t.Fatal(line, err)
	}
	dev := Open(rnic.DeviceConfig{})
	a = newSide(t, dev, rnic.RC)
	if err := dev.Connect(t.Context(), a.qp, at.String(), rnic.ConnParams{}); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	return a, at, kill
}

// TestPeerGone: the network reports that a gone peer's port is closed.
func TestPeerGone(t *testing.T) {
	a, _, kill := victim(t)
	kill()
	a.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 100)}})
	<-a.qp.Done()
	if err := a.qp.Err(); !errors.Is(err, core.ErrRefused) || !errors.Is(err, rnic.ErrConnLost) {
		t.Errorf("Err: %v, want %v and %v", err, core.ErrRefused, rnic.ErrConnLost)
	}
}

// TestPeerRestarted: a restarted peer reports that it does not know the connection.
func TestPeerRestarted(t *testing.T) {
	a, at, kill := victim(t)
	kill()
	l, err := Open(rnic.DeviceConfig{}).Listen("udp", at.String())
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	a.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 100)}})
	<-a.qp.Done()
	if err := a.qp.Err(); !errors.Is(err, cm.ErrForgotten) || !errors.Is(err, rnic.ErrConnLost) {
		t.Errorf("Err: %v, want %v and %v", err, cm.ErrForgotten, rnic.ErrConnLost)
	}
}
