// The mount request, and its options in the form of the executing packages.

// Package mounter runs a mount: the checks before it, the background process that serves it, and
// its end.
package mounter

import (
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
)

// A Request is one mount as the user requested it.
type Request struct {
	Spec    string // as typed
	Dir     string // absolute, without symbolic links
	Source  mountopt.Source
	Options *mountopt.Options
	Given   string // the options as typed, separated by commas
	Helper  bool   // called by mount(8): wait for a server that is not up yet
	Verbose bool   // report each step
	LogFile string // "": the system log in the background, otherwise standard error

	security *secure.Security // set by the first attempt to connect
}

// The retry times without retry=.
const (
	retryHelper     = 2 * time.Minute // nfs(5)
	retryBackground = 10000 * time.Minute
)

// retry returns how long to retry an unreachable server.
func (r *Request) retry() time.Duration {
	switch {
	case r.Options.Retry >= 0:
		return r.Options.Retry
	case r.Options.Background:
		return retryBackground
	case r.Helper:
		return retryHelper
	}
	return 0
}

// fuseOptions converts the options for fusefs. Root's mounts are like mount(8)'s: accessible to all
// users, with devices and set-ID programs unless the options forbid them. Other users' mounts are
// private, and FUSE removes devices and set-ID programs.
func (r *Request) fuseOptions(log func(string)) fusefs.Options {
	o, root := r.Options, os.Geteuid() == 0
	f := fusefs.Options{
		Logger: logto.Standard,
		Source: r.Source.Name, ReadOnly: o.ReadOnly, DefaultPermissions: o.DefaultPermissions,
		AllowOther: o.AllowOther || root && !o.OnlyMe,
		AcRegMin:   negativeIfZero(o.AttrFileMin), AcRegMax: negativeIfZero(o.AttrFileMax), AcDirMin: negativeIfZero(o.AttrDirMin), AcDirMax: negativeIfZero(o.AttrDirMax),
		NoAC: o.NoAttrCache, NoCTO: o.NoCTO, Sync: o.Sync, NoReaddirplus: o.NoReaddirPlus, NoACL: o.NoACL,
		LookupCache: fusefs.LookupCache(o.Lookup), SoftErr: o.Recovery == mountopt.SoftErr,
		LocalPosix: o.LocalPosix, LocalFlock: o.LocalFlock,
		Memory: o.Memory, Direct: root, Log: log,
	}
	if dir, err := mountctl.OwnDir(); err == nil && !(o.LocalPosix && o.LocalFlock) {
		f.LockDir = dir
	}
	if !(o.LocalPosix && o.LocalFlock) {
		f.Announce, f.AnnounceMonitor = announce, announceMonitor
		if root {
			f.StableDir, f.Boot = stableDir(stateDir), bootID()
		}
	}
	if o.UID.Set || o.GID.Set {
		f.Cred = o.Client(r.Source.Targets[0]).Cred
	}
	for word, off := range map[string]bool{"suid": o.NoSuid, "dev": o.NoDev, "exec": o.NoExec} {
		switch {
		case off:
			f.FuseOptions = append(f.FuseOptions, "no"+word)
		case root:
			f.FuseOptions = append(f.FuseOptions, word)
		}
	}
	if o.NoAtime {
		f.FuseOptions = append(f.FuseOptions, "noatime")
	}
	if o.NoSymfollow {
		f.FuseOptions = append(f.FuseOptions, "nosymfollow")
	}
	if o.Contexts != "" && selinux() {
		f.FuseOptions = append(f.FuseOptions, o.Contexts)
	}
	return f
}

// selinux reports whether SELinux is on. Without SELinux the kernel refuses a mount's labels, and
// mount(8) omits them.
func selinux() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// negativeIfZero converts an attribute-cache time for fusefs, where zero is written as a negative
// number.
func negativeIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
