// The audit log of serve: its flag, opening and closing.

package program

import (
	"context"
	"path/filepath"

	"github.com/nfsrdma/nfsrdma/cmd/internal/audit"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
)

// auditing has the audit log and its flag. Without the flag its methods do nothing.
type auditing struct {
	file string // the path, absolute after open
	log  *audit.Log
}

func (a *auditing) flags(f *pflag.FlagSet) {
	f.StringVar(&a.file, "audit", "", "write each call that changes names or attributes to this `FILE`, as a line of JSON; SIGHUP and nfsrdmad reload open it again (default: none)")
}

// open opens the audit log.
func (a *auditing) open() (err error) {
	if a.file == "" {
		return nil
	}
	if a.file, err = filepath.Abs(a.file); err == nil {
		a.log, err = audit.Open(a.file)
	}
	return err
}

// auditor returns the receiver of changes, or nil.
func (a *auditing) auditor() nfsserver.Auditor {
	if a.log == nil {
		return nil
	}
	return a.log
}

// reopen opens the log's path again, and logs a failure.
func (a *auditing) reopen() error {
	if a.log == nil {
		return nil
	}
	err := a.log.Reopen()
	if err != nil {
		logrus.Error(err)
	}
	return err
}

// close writes the queued records. Call close after serving has ended.
func (a *auditing) close() {
	if a.log == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := a.log.Close(ctx); err != nil {
		logrus.Error(err)
	}
}
