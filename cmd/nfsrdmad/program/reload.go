// nfsrdmad reload, and its handling in the server: applies a changed exports file.

package program

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newReload(k *Kind) *cobra.Command {
	var socket string
	var ifRunning bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the server read its exports file again",
		Long: `Make the server on this machine read its exports file again, as SIGHUP does.

The new exports replace the old ones in one step. Clients of an export that stays
notice nothing. Files of an export that was removed are stale for its clients. A file
with a mistake is refused, and the old exports stay. The server also reads the file of
--idmap again. It opens the audit log again, so that logrotate can rename it before. If
that fails, records go to the renamed file. Certificates and keytabs need no reload:
changed files are used at once.`,
		Example: "  nfsrdmad check && nfsrdmad reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var r reloadReport
			err := k.ask(cmd.Context(), socket, "reload", &r)
			switch {
			case errors.Is(err, control.ErrNoServer) && ifRunning:
				return nil // a later server reads the files when it starts
			case errors.Is(err, control.ErrNoServer):
				return fmt.Errorf("%w; or send it SIGHUP", err)
			}
			if r.File != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is in force: %s\n", r.File, text.Plural(int64(r.Exports), "export"))
			}
			if r.Audit != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: opened again\n", r.Audit)
			}
			if r.Users != "" && err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: read again\n", r.Users)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&ifRunning, "if-running", false, "succeed if no server runs (for logrotate)")
	cmd.Flags().StringVar(&socket, "control", "", k.controlHelp())
	return cmd
}

// A reloadReport is the answer to reload.
type reloadReport struct {
	File    string `json:"file,omitempty"` // "": there is no exports file
	Exports int    `json:"exports,omitempty"`
	Audit   string `json:"audit,omitempty"` // "": there is no audit log
	Users   string `json:"idmap,omitempty"` // "": there is no table of principals
}

// hangup handles SIGHUP by reading the files again. Without files the signal comes from a closed
// terminal or by mistake, and must not disconnect clients.
func (r *running) hangup() {
	if r.set.file == "" && r.o.audit.log == nil && r.o.security.kerberos.table == "" {
		logrus.Info("SIGHUP: nothing to read again, as there is neither --exports nor --audit nor --idmap; the server goes on, and SIGTERM ends it")
		return
	}
	_, _ = r.reload() // reload logs the error
}

// reload reopens the audit log, applies the exports file, and notifies the log and the service
// manager. The file is applied even if the log cannot be reopened.
func (r *running) reload() (done reloadReport, err error) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	notify(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000))
	defer notify("READY=1")
	done.Users = r.o.security.kerberos.table
	usersErr := r.o.security.reload()
	if usersErr != nil {
		logrus.Errorf("the file of --idmap is not taken in, the users found by it before still are: %v", usersErr)
	}
	auditErr := errors.Join(usersErr, r.o.audit.reopen())
	if r.o.audit.log != nil {
		done.Audit = r.o.audit.file
	}
	if r.set.file == "" && (done.Audit != "" || done.Users != "") {
		return done, auditErr
	}
	done.File = r.set.file
	done.Exports, err = r.set.reload(r.service)
	if r.set.file != "" {
		r.set.history.note(err)
	}
	switch {
	case errors.Is(err, errNoFile):
		logrus.Info(err)
	case err != nil:
		logrus.Errorf("the exports file is not taken in, what was served before still is: %v", err)
	default:
		logrus.Infof("%s is in force: %s", r.set.file, text.Plural(int64(done.Exports), "export"))
	}
	if auditErr != nil && err != nil {
		return done, fmt.Errorf("%w; %w", err, auditErr)
	}
	return done, errors.Join(err, auditErr)
}
