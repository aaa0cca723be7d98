// The test bed: the programs, the served directory, the servers, and the samples.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// fileSize is the size of the test files: larger than the CPU caches.
const fileSize = 128 << 20

// A bed is the environment of all groups. One goroutine uses it.
type bed struct {
	config  config
	base    string // all files of the run; removed at its end
	served  string // the exported directory, below base
	ours    *server
	ganesha *server // nil: not measured
	juice   *juice  // nil until a group needs it
	samples samples
	graphs  []chart
	enter   []string    // the prefix for the clients' end; see pair
	procs   []*exec.Cmd // started by us; ended in reverse order
	ends
}

// A server is a server process with its addresses.
type server struct {
	programs  string // the directory of the server's and its client's commands; empty: ours
	pid       int
	rdma, tcp string // addresses; rdma is empty without RDMA
	export    string
	mountPort string // empty: MOUNT is on the same port
}

// newBed builds the commands and starts the servers.
func newBed(ctx context.Context, c config) (*bed, error) {
	b := &bed{config: c, samples: make(samples)}
	if err := b.open(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bed) open(ctx context.Context) (err error) {
	dir := b.config.dir
	switch {
	case dir != "":
	case isolated():
		dir = "/run" // removed with the namespace in any case
	default:
		dir = "/dev/shm"
	}
	if b.base, err = os.MkdirTemp(dir, "nfsrdma-bench-"); err != nil {
		return err
	}
	b.served = filepath.Join(b.base, "served")
	if err := os.Mkdir(b.served, 0o755); err != nil {
		return err
	}
	const module = "github.com/nfsrdma/nfsrdma/cmd/"
	build := exec.CommandContext(ctx, "go", "build", "-o", b.base+"/", module+"nfsrdma", module+"nfsrdmad")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	if err := b.settlePlace(); err != nil {
		return err
	}
	if err := b.startOurs(); err != nil {
		return err
	}
	if b.config.against != "" {
		return nil
	}
	if _, missing := exec.LookPath("ganesha.nfsd"); b.config.ganesha && missing == nil && isolated() {
		err = b.startGanesha()
	} else {
		fmt.Fprintln(os.Stderr, "bench: without nfs-ganesha (it has to be installed, and root to run this)")
	}
	return err
}

// close ends all processes and removes the run's files.
func (b *bed) close() {
	if b.stopPeer != nil {
		b.stopPeer()
	}
	if b.wire != nil {
		_ = b.wire.close()
	}
	for i := len(b.procs) - 1; i >= 0; i-- {
		_ = b.procs[i].Process.Kill()
		_ = b.procs[i].Wait()
	}
	if b.base != "" {
		_ = os.RemoveAll(b.base)
	}
}

// start starts a process, which close ends. The output goes to a file named after the program.
func (b *bed) start(cmd *exec.Cmd) error { return b.startAs(filepath.Base(cmd.Path), cmd) }

func (b *bed) startAs(name string, cmd *exec.Cmd) error {
	log, err := os.OpenFile(filepath.Join(b.base, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	b.procs = append(b.procs, cmd)
	return nil
}

// startTime limits a server's start.
const startTime = 20 * time.Second

// await waits until a server listens at the address.
func (b *bed) await(name, addr string) error {
	for end := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(b.base, name+".log"))
			return fmt.Errorf("%s cannot be reached: %w\n%s", name, err, log)
		}
	}
}

// freePort returns a port reserved for this process.
func freePort() (string, error) {
	port, _, err := machine.ReservePort()
	return strconv.Itoa(port), err
}

// startOurs serves the directory used by all groups but one.
func (b *bed) startOurs() (err error) {
	b.ours, err = b.serve(b.served, "state")
	return err
}

// serve starts nfsrdmad with a directory.
func (b *bed) serve(dir, state string) (*server, error) { return b.serveArgs(state, dir+"=/bench") }

// serveArgs starts nfsrdmad with the given arguments.
func (b *bed) serveArgs(state string, what ...string) (*server, error) {
	return b.serveBy("nfsrdmad", state, what...)
}

// serveBy starts one of our servers with the given arguments.
func (b *bed) serveBy(program, state string, what ...string) (*server, error) {
	return b.serveFrom(b.base, program, state, what...)
}

// serveFrom starts a server from a directory of commands. The client selects CRCs, so that one
// server serves measurements with and without CRCs.
func (b *bed) serveFrom(programs, program, state string, what ...string) (*server, error) {
	var ports [2]string
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	addr := "127.0.0.1"
	if isolated() {
		addr = "0.0.0.0" // for the veth pair
	}
	flags := []string{"--addr=" + addr, "--rdma-port=" + ports[0], "--tcp-port=" + ports[1], "--crc=auto", "--no-root-squash",
		"--max-conns=16000", "--max-conns-per-host=16000", "--state-dir=" + filepath.Join(b.base, state)}
	path := filepath.Join(programs, program)
	if programs != b.base {
		var err error
		if flags, err = knownFlags(path, flags); err != nil {
			return nil, err
		}
	}
	pid, err := b.startServer(path, slices.Concat([]string{"serve"}, flags, what)...)
	if err != nil {
		return nil, err
	}
	s := &server{programs: programs, pid: pid, rdma: b.host + ":" + ports[0], tcp: b.host + ":" + ports[1], export: "/bench"}
	return s, b.await(program, s.tcp)
}

// url returns the URL of a path below the export.
func (s *server) url(scheme, name string) string {
	addr := s.tcp
	if scheme == "nfsrdma" {
		addr = s.rdma
	}
	return strings.TrimSuffix(scheme+"://"+addr+s.export+"/"+name, "/")
}

// errNoGanesha is the error for the target ganesha if it is not measured.
var errNoGanesha = errors.New("nfs-ganesha is not measured")
