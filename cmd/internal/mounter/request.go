// What is to be mounted where, and the options in the words of the packages that do it.

// Package mounter is the life of a mount: the checks before it, the process in the
// background that serves it, and its end.
package mounter

import (
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
)

// A Request is one mount, as a user asked for it.
type Request struct {
	Spec    string // as it was typed
	Dir     string // absolute, without symbolic links
	Source  mountopt.Source
	Options *mountopt.Options
	Given   string // the options as they were typed, separated by commas
	Helper  bool   // called by mount(8): a server that is not up yet is waited for
	Verbose bool   // tell what is done
	LogFile string // "": the system's log in the background, else standard error
}

// How long mounting is tried again where retry= does not say.
const (
	retryHelper     = 2 * time.Minute // nfs(5)
	retryBackground = 10000 * time.Minute
)

// retry is how long a server that cannot be reached is tried.
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

// fuseOptions is the options in the words of fusefs. Root's mounts are as those of
// mount(8): for everybody, with devices and set-id programs unless the options say
// otherwise; those of others are for themselves, and FUSE takes the rest away.
func (r *Request) fuseOptions(log func(string)) fusefs.Options {
	o, root := r.Options, os.Geteuid() == 0
	f := fusefs.Options{
		Logger: logto.Standard,
		Source: r.Source.Name, ReadOnly: o.ReadOnly, DefaultPermissions: o.DefaultPermissions,
		AllowOther: o.AllowOther || root && !o.OnlyMe,
		AcRegMin:   none(o.AttrFileMin), AcRegMax: none(o.AttrFileMax), AcDirMin: none(o.AttrDirMin), AcDirMax: none(o.AttrDirMax),
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

// selinux reports whether SELinux is on: elsewhere the kernel refuses the labels of a mount, which
// mount(8) leaves out then.
func selinux() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// none is a time of the attribute cache as fusefs has it: less than 0 where 0 was asked for.
func none(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
