// The places of the two ends: on the same CPUs, on one CPU each, or in two networks joined by a
// delayed path.

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The places.
const (
	placeShared = "shared" // both ends on all CPUs, over loopback
	placeApart  = "apart"  // servers on the first CPU, clients on the second, over loopback
	placeWire   = "wire"   // both ends on all CPUs, in two networks joined by a delayed path
)

var places = []string{placeShared, placeApart, placeWire}

// sharedOnly are the groups with special ends: both in one process, or in networks that they make.
var sharedOnly = []string{"veth", "rnic", "roce", "cost", "disk", "juicefs", "juicefs-calls", "juicefs-profile", "juicefs-memory"}

// ends has the command prefixes of both ends and their addresses.
type ends struct {
	server, client []string // words before a command
	host           string   // the address of the servers
	peer           string   // address of raw TCP's other end; empty: nfsrdma bench starts that end
	stopPeer       func()   // nil: no other end was started
	wire           *wire    // nil: no delayed path
}

// parsePlaces parses comma-separated names of places.
func parsePlaces(s string) ([]string, error) {
	if s == "" {
		s = placeShared
	}
	list := strings.Split(s, ",")
	for _, p := range list {
		if !slices.Contains(places, p) {
			return nil, fmt.Errorf("-place %s: there are %s", p, strings.Join(places, ", "))
		}
	}
	return list, nil
}

// settlePlace prepares the configured place. The commands are already built.
func (b *bed) settlePlace() (err error) {
	b.host = "127.0.0.1"
	switch b.config.place {
	case placeApart:
		cpus := strings.Split(b.config.cpus, ",")
		if len(cpus) < 2 {
			return fmt.Errorf("-place %s needs two CPUs, -cpus %s", placeApart, b.config.cpus)
		}
		b.server, b.client = []string{"taskset", "-c", cpus[0]}, []string{"taskset", "-c", cpus[1]}
	case placeWire:
		if !isolated() {
			return errors.New("-place wire makes network namespaces, which needs root")
		}
		if err := b.openWire(); err != nil {
			return err
		}
		b.host, b.client = vethServer, b.enter
	default:
		return nil
	}
	b.peer, b.stopPeer, err = b.rawPeer(b.host)
	return err
}

// clientCommand returns a command at the clients' end.
func (b *bed) clientCommand(ctx context.Context, args ...string) *exec.Cmd {
	args = slices.Concat(b.client, args)
	return exec.CommandContext(ctx, args[0], args[1:]...)
}

// serverCommand returns a command at the servers' end.
func (b *bed) serverCommand(args ...string) *exec.Cmd {
	args = slices.Concat(b.server, args)
	return exec.Command(args[0], args[1:]...)
}

// startServer starts a server at its end. Its output goes to a file named after the program.
func (b *bed) startServer(program string, args ...string) (pid int, err error) {
	cmd := b.serverCommand(slices.Concat([]string{program}, args)...)
	if err := b.startAs(filepath.Base(program), cmd); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}
