// A guest: its start, its end, and its state.

// Package guest boots Linux in QEMU and runs shell scripts in it. Each guest is one QEMU process:
// it ends with Close, and the kernel kills it if this process dies in any way.
package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/image"
)

// Config describes a guest.
type Config struct {
	Image    *image.Image
	MemoryMB int   // 0: 768
	Ports    []int // guest TCP ports that this machine must reach; see Network.Address
	Isolated bool  // the guest cannot connect to this machine, but this machine to the guest
	Direct   bool  // Boot fails with image.ErrUnavailable without a tap device: see Network
	MTU      int   // of the network, 0: DefaultMTU; the user network has 1500

	// Device is the tap device, which determines the addresses: for example an ended guest's.
	// Empty: the next free device.
	Device string

	shell bool // the console is the terminal
}

// Guest is a running Linux. It runs one script at a time.
type Guest struct {
	*Network
	// Share is a host directory, visible as /share in the guest.
	Share string

	dir    string
	cmd    *exec.Cmd
	gone   chan struct{} // closed when QEMU has ended
	waited error         // valid once gone is closed
	stop   context.CancelFunc
	script atomic.Int64

	mu   sync.Mutex // held while a script runs
	dead error      // why the guest accepts no more scripts
}

// bootTime limits the boot under software emulation: 5 to 10 s on an idle machine, and minutes on a
// machine that runs all other tests concurrently.
const bootTime = 15 * time.Minute

// Boot starts a guest and waits until it accepts scripts; ctx limits only the wait.
func Boot(ctx context.Context, cfg Config) (*Guest, error) {
	if _, err := exec.LookPath(qemu); err != nil {
		return nil, fmt.Errorf("%w: %s is missing", image.ErrUnavailable, qemu)
	}
	if useKVM() {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if g, err := boot(ctx, cfg, "kvm"); err == nil {
			return g, nil
		}
		kvmBroken.Store(true)
	}
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	return boot(ctx, cfg, "tcg,thread=multi")
}

func boot(ctx context.Context, cfg Config, accel string) (g *Guest, err error) {
	g = &Guest{gone: make(chan struct{})}
	if g.dir, err = os.MkdirTemp("", "nfsrdma-guest-"); err != nil {
		return nil, err
	}
	g.Share = filepath.Join(g.dir, "share")
	if err := os.MkdirAll(filepath.Join(g.Share, "q"), 0o755); err != nil {
		return nil, err
	}
	if g.Network, err = newNetwork(cfg); err != nil {
		g.Close()
		return nil, err
	}
	if err = g.start(arguments(cfg, g.Network, g.dir, accel)); err != nil {
		g.Close()
		return nil, err
	}
	if err := g.await(ctx, filepath.Join(g.Share, "ready")); err != nil {
		err = fmt.Errorf("guest did not come up: %w\n%s", err, g.Console())
		g.Close()
		return nil, err
	}
	return g, nil
}

// start runs QEMU from a thread that lives as long as QEMU, because the parent-death signal depends
// on the forking thread rather than the process.
func (g *Guest) start(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	g.cmd = exec.CommandContext(ctx, qemu, args...)
	g.cmd.ExtraFiles = g.files()
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	log, err := os.Create(filepath.Join(g.dir, "qemu.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	g.cmd.Stdout, g.cmd.Stderr = log, log
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(g.gone)
		err := g.cmd.Start()
		started <- err
		if err == nil {
			err = g.cmd.Wait()
		}
		g.waited = err
	}()
	return <-started
}

// poll is the interval of checks for a file written by the guest.
const poll = 20 * time.Millisecond

var errGone = errors.New("the guest is gone")

func (g *Guest) await(ctx context.Context, file string) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.gone:
			return errGone
		case <-tick.C:
		}
	}
}

// crash matches the start of a kernel's crash report.
var crash = regexp.MustCompile(`BUG:|Oops|general protection|double fault|stack guard|invalid opcode|divide error|Kernel panic`)

// Console returns the last lines of the guest's console, or the start of its kernel's crash report,
// and QEMU's output.
func (g *Guest) Console() string {
	var all []string
	for _, name := range []string{"console.log", "qemu.log"} {
		text, _ := os.ReadFile(filepath.Join(g.dir, name))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if first := slices.IndexFunc(lines, crash.MatchString); first >= 0 {
			all = append(all, lines[first:min(first+80, len(lines))]...)
			continue
		}
		all = append(all, lines[max(0, len(lines)-15):]...)
	}
	return strings.Join(all, "\n")
}

// Kill ends the guest's process, like a power loss: its address stays allocated and does not
// answer. Close is still required.
func (g *Guest) Kill() {
	g.stop()
	<-g.gone
}

// Close asks the guest to power off and kills it after two seconds. It returns when the process is
// gone.
func (g *Guest) Close() error {
	if g.cmd != nil && g.cmd.Process != nil {
		os.WriteFile(filepath.Join(g.Share, "q", "stop"), nil, 0o644)
		select {
		case <-g.gone:
		case <-time.After(2 * time.Second):
		}
		g.stop()
		<-g.gone
	}
	if g.Network != nil {
		g.Network.end()
	}
	return os.RemoveAll(g.dir)
}
