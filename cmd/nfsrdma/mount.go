// nfsrdma mount: mounts an export on a directory, or lists the mounts.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mounter"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses of mount(8).
const (
	exitUsage   = 1
	exitFailure = 32
)

// A mountCommand has the flags of a mount, under either name of the program.
type mountCommand struct {
	options    []string
	foreground bool
	logFile    string
	readyFD    int
	verbose    bool
	fake       bool // everything except the mount itself
	sloppy     bool // ignore unknown options
	ro, rw     bool // -r and -w of mount(8)
	ofType     string
	helper     bool // called by mount(8)
}

const mountLong = `Mount an export on a directory, so that any program can use it. The command
returns when the mount works. A background process serves the mount until umount,
nfsrdma umount or SIGTERM. Before it ends, it writes all data back to the server.
Without arguments the command lists the mounts.

A mount needs FUSE in the kernel, and no RDMA device. If fusermount3 is installed,
it needs no privilege. A mount of root is for all users: each program acts on the
server as its own user, with its groups. A mount of another user is for that user.

Separate several servers of one volume with commas. Each mount uses one of them,
chosen at random. It changes to another one when that server stops answering. A
server with other files or other handles is an error at first, and later is not
used.

The options are a subset of those of nfs(5), with the same meaning. Options that
contradict each other are an error. Of those of mount(8), such as ro and rw, the
last one counts. Times are in seconds unless the option says otherwise.

`

// newMount returns the command mount.
func newMount(s *session.Session) *cobra.Command {
	m := &mountCommand{}
	cmd := &cobra.Command{
		Use:   "mount [[-o OPTIONS] SERVER:/export DIR]",
		Short: "Mount an export on a directory, or list the mounts",
		Long:  mountLong + mountopt.Help(),
		Example: `  nfsrdma mount server:/export /mnt
  nfsrdma mount -o proto=auto,soft,timeo=50 server:/export/home /mnt
  nfsrdma mount nfs://server:2049/export /mnt
  nfsrdma mount -o ro,nconnect=4 [2001:db8::1]:/export /mnt
  nfsrdma mount server1,server2,server3:/volume /mnt
  nfsrdma mount`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return errors.New("no arguments, or two")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Equal(m.options, []string{"help"}) {
				_, err := io.WriteString(cmd.OutOrStdout(), mountopt.Help())
				return err
			}
			if len(args) == 0 {
				if len(m.options) > 0 || m.ro || m.rw {
					return statusError(cmd, exitUsage, errors.New("options, but no SERVER:/export and DIR: write both after the options"))
				}
				return listMounts(cmd.OutOrStdout())
			}
			return m.run(cmd, s, args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&m.options, "options", "o", nil, "mount `OPTIONS`, separated by commas; help lists them")
	f.BoolVarP(&m.foreground, "foreground", "f", false, "serve the mount in this process until umount or a signal")
	f.StringVar(&m.logFile, "log-file", "", "`FILE` for messages (default: the system log, or standard error with -f)")
	f.BoolVarP(&m.verbose, "verbose", "v", false, "report each step")
	m.addMountFlags(f)
	f.IntVar(&m.readyFD, "ready-fd", 0, "")
	f.BoolVar(&m.helper, "helper", false, "")
	f.BoolVar(&m.sloppy, "sloppy", false, "")
	for _, name := range []string{"ready-fd", "helper", "sloppy"} {
		_ = f.MarkHidden(name) // arguments for the background process
	}
	completeMount(cmd, s)
	return cmd
}

// addMountFlags adds the flags of mount(8), for either name of the program.
func (m *mountCommand) addMountFlags(f *pflag.FlagSet) {
	f.BoolVarP(&m.ro, "read-only", "r", false, "the same as -o ro")
	f.BoolVarP(&m.rw, "rw", "w", false, "the same as -o rw")
	f.StringVarP(&m.ofType, "types", "t", "", "the file system type `TYPE` of mount(8): must be nfsrdma")
}

// hideConnectionFlags hides connection flags from the help of mount, because they are mount
// options.
func hideConnectionFlags(cmd *cobra.Command) {
	for flag := range flagOfOption {
		_ = cmd.Flags().MarkHidden(flag)
	}
}

// flagOfOption maps flags of other commands to mount options; "" stands for several options.
var flagOfOption = map[string]string{"proto": "proto", "rdma": "rdma", "mount-port": "mountport", "nconnect": "nconnect", "crc": "crc", "timeout": "",
	"sec": "sec", "keytab": "keytab", "xprtsec": "xprtsec", "cacert": "cacert", "cert": "cert", "key": "key", "crl": "crl", "tls-name": "tlsname"}

// completeMount sets the shell completion of options, exports and directories.
func completeMount(cmd *cobra.Command, s *session.Session) {
	_ = cmd.RegisterFlagCompletionFunc("options", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeOptions(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	paths := completePaths(s, false)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return paths(cmd, args, typed)
	}
}

// run mounts, in this process or in a background process.
func (m *mountCommand) run(cmd *cobra.Command, s *session.Session, spec, dir string) error {
	// mount -a handles many lines, so each message begins with its mount.
	line := func(message string) string {
		return spec + " on " + dir + ": " + strings.TrimLeft(strings.TrimPrefix(message, spec), ": ")
	}
	r, err := m.request(cmd, spec)
	if err != nil {
		return statusError(cmd, exitUsage, errors.New(line(err.Error())))
	}
	if r.Dir, err = mounter.CheckPoint(dir); err != nil {
		return statusError(cmd, exitFailure, err)
	}
	if m.readyFD == 0 && r.Options.Warning != "" {
		cli.Warn(cmd, line(r.Options.Warning))
	}
	if m.fake {
		return nil
	}
	if m.foreground || m.readyFD > 0 {
		return m.serve(cmd, s, r)
	}
	stderr, ok := cmd.ErrOrStderr().(*os.File)
	if !ok {
		stderr = os.Stderr
	}
	err = mounter.Background(cmd.Context(), m.args(cmd, r), stderr)
	if err == nil && m.verbose {
		fmt.Fprintf(cmd.OutOrStdout(), "%s on %s type %s\n", r.Source.Name, r.Dir, mountctl.FSType)
	}
	return statusError(cmd, exitFailure, err)
}

// request parses the arguments and options of the mount.
func (m *mountCommand) request(cmd *cobra.Command, spec string) (*mounter.Request, error) {
	lists, err := flagOptions(cmd)
	if err != nil {
		return nil, err
	}
	if !m.helper && !slices.Contains([]string{"", mountctl.FSType, strings.TrimPrefix(mountctl.FSType, "fuse.")}, m.ofType) {
		return nil, fmt.Errorf("-t %s: must be nfsrdma; mount(8) mounts other types", m.ofType)
	}
	if m.ro {
		m.options = append(m.options, "ro")
	}
	if m.rw {
		m.options = append(m.options, "rw")
	}
	m.ro, m.rw = false, false
	lists = append(lists, m.options...)
	o, err := mountopt.Parse(lists, m.sloppy)
	if err != nil {
		return nil, err
	}
	r := &mounter.Request{Spec: spec, Options: o, Given: strings.Join(lists, ","), Helper: m.helper, Verbose: m.verbose}
	if r.Source, err = o.Source(spec); err != nil {
		return nil, err
	}
	if m.logFile != "" {
		if r.LogFile, err = filepath.Abs(m.logFile); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// flagOptions returns the given connection flags as mount options.
func flagOptions(cmd *cobra.Command) (lists []string, err error) {
	for flag, option := range flagOfOption {
		f := cmd.Flags().Lookup(flag)
		switch {
		case f == nil || !f.Changed:
		case option == "":
			return nil, fmt.Errorf("--%s: a mount has the options soft, timeo and retrans for that", flag)
		default:
			value := f.Value.String()
			if strings.Contains(value, ",") {
				value = `"` + value + `"`
			}
			lists = append(lists, option+"="+value)
		}
	}
	return lists, nil
}

// args returns the arguments of the background process. Their paths are absolute, because that
// process has another working directory.
func (m *mountCommand) args(cmd *cobra.Command, r *mounter.Request) []string {
	args := []string{"mount", "--ready-fd", strconv.Itoa(mounter.ReadyFD)}
	if lists, _ := flagOptions(cmd); len(lists)+len(m.options) > 0 {
		for _, list := range append(lists, m.options...) {
			args = append(args, "-o", list)
		}
	}
	if f := cmd.Flags().Lookup("connect-timeout"); f != nil && f.Changed {
		args = append(args, "--connect-timeout", f.Value.String())
	}
	for flag, on := range map[string]bool{"--verbose": m.verbose, "--helper": m.helper, "--sloppy": m.sloppy} {
		if on {
			args = append(args, flag)
		}
	}
	if r.LogFile != "" {
		args = append(args, "--log-file", r.LogFile)
	}
	return append(args, "--", r.Spec, r.Dir)
}

// serve runs the process of the mount.
func (m *mountCommand) serve(cmd *cobra.Command, s *session.Session, r *mounter.Request) error {
	log, err := mounter.NewLog(cmd.ErrOrStderr(), r.LogFile, m.readyFD > 0)
	if err != nil {
		return statusError(cmd, exitUsage, err)
	}
	ready := func() {}
	if m.readyFD > 0 {
		ready = func() { mounter.ReportReady(m.readyFD, log) }
	}
	s.Flags.Mount8 = m.helper
	err = r.Serve(cmd.Context(), s, log, ready)
	if m.readyFD > 0 && cmd.Context().Err() != nil {
		return cli.ExitError(exitFailure) // the waiting process has already reported the error
	}
	return statusError(cmd, exitFailure, err)
}

// statusError reports err in one line and returns an error with an exit status of mount(8).
func statusError(cmd *cobra.Command, status int, err error) error {
	var exit cli.ExitError
	if err == nil || errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "nfsrdma: %s\n", cli.OneLine(cmd.Root(), err))
	return cli.ExitError(status)
}

// listMounts writes the mounts in the format of mount(8).
func listMounts(w io.Writer) error {
	list, err := mountctl.List()
	for _, m := range list {
		note, options := "", m.Flags
		if c, err := mountctl.Dial(m); err == nil {
			var r mounter.Report
			if c.Stats(&r) == nil { // otherwise the mount is about to end
				options = strings.TrimSuffix(options+","+r.ListOptions(), ",")
			}
			c.Close()
		} else if errors.Is(err, mountctl.ErrNoProcess) {
			note = " - its process is gone: clear it with nfsrdma umount"
		}
		fmt.Fprintf(w, "%s on %s type %s (%s)%s\n", text.HideControl(m.Source), text.HideControl(m.Dir), m.Type, text.HideControl(options), note)
	}
	return err
}
