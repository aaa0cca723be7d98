// nfsrdma bench --mount: its server, mounts and directories.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mounter"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountpeer"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

// A mountBench has the flags of bench --mount.
type mountBench struct {
	on            bool
	rounds, files int
}

func (m *mountBench) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&m.on, "mount", false, "measure programs on a mount; without URL, start a server for it")
	f.IntVar(&m.rounds, "rounds", 5, "measure `N` rounds, with --mount")
	f.IntVar(&m.files, "files", 10000, "make `N` small files, with --mount; 0: none")
	for _, with := range []string{"tests", "no-raw", "block", "server-pid"} {
		cmd.MarkFlagsMutuallyExclusive("mount", with)
	}
}

// run measures, with an in-memory directory for all files outside the server.
func (m *mountBench) run(cmd *cobra.Command, s *session.Session, args []string, o bench.Options) (r *bench.MountReport, err error) {
	mo := bench.MountOptions{Rounds: m.rounds, Depth: o.Depth, Size: o.Size, Duration: o.Duration, Files: m.files}
	if !cmd.Flags().Changed("duration") {
		mo.Duration = time.Second
	}
	if err := errors.Join(mo.Check(), mounter.CheckFUSE()); err != nil {
		return nil, err
	}
	tmp, err := tempDir()
	if err != nil {
		return nil, err
	}
	rig := bench.MountRig{Scratch: filepath.Join(tmp, "scratch"), Loopback: filepath.Join(tmp, "served"), Clear: mountpeer.Clear}
	defer func() {
		// The scratch directory is empty now, unless a mount remains in it. Remove then fails, and
		// the mount stays.
		if e := os.Remove(rig.Scratch); e == nil || errors.Is(e, os.ErrNotExist) {
			e = os.RemoveAll(tmp)
			err = errors.Join(err, e)
		}
	}()
	if err := errors.Join(os.Mkdir(rig.Scratch, 0o755), os.Mkdir(rig.Loopback, 0o755)); err != nil {
		return nil, err
	}
	if len(args) == 1 {
		return m.measure(cmd, s, args[0], rig, mo)
	}
	// The server outlives the signal that ends the measurement, because the mounts need it until
	// they are unmounted.
	srv, err := child.Start(context.WithoutCancel(cmd.Context()), "_serve", rig.Loopback)
	if err != nil {
		return nil, err
	}
	defer func() {
		s.Close()
		if e := srv.Stop(); err == nil && e != nil {
			err = fmt.Errorf("server process: %w", e)
		}
	}()
	rig.Same = true
	rdma, tcp, ok := strings.Cut(srv.Line, " ")
	if !ok {
		return nil, fmt.Errorf("server process says %q", srv.Line)
	}
	spec := "nfsrdma://" + rdma + demoExport
	if s.Flags.Proto == nfsclient.TCP.String() {
		spec = "nfs://" + tcp + demoExport
	}
	return m.measure(cmd, s, spec, rig, mo)
}

// measure connects to the directory spec and measures a mount of it.
func (m *mountBench) measure(cmd *cobra.Command, s *session.Session, spec string, rig bench.MountRig, o bench.MountOptions) (*bench.MountReport, error) {
	ctx := cmd.Context()
	t, err := s.Target(spec)
	if err != nil {
		return nil, session.ArgError(spec, err)
	}
	fsys, rest, err := s.Mount(ctx, t)
	if err != nil {
		return nil, err
	}
	if rig.FS, err = fsys.Sub(ctx, rest); err != nil {
		return nil, err
	}
	flags := connectionArgs(cmd)
	rig.Peer = func(mount, dir string) []string {
		what := map[string]string{bench.MountOurs: spec, bench.MountNull: strconv.FormatInt(o.Size, 10), bench.MountLoopback: rig.Loopback}[mount]
		return slices.Concat([]string{"_mountpeer"}, flags, []string{"--", mount, what, dir})
	}
	r := &bench.MountReport{Target: t.String(), Transport: t.Transport.String(), Conns: s.Flags.NConnect}
	if t.Transport == nfsclient.RDMA {
		r.CRC = s.Flags.CRC
	}
	return r, bench.Mount(ctx, rig, o, r)
}
