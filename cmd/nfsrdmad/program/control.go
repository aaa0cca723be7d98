// The control socket: its path, its answers, and requests by the commands.

package program

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/sirupsen/logrus"
)

// runDir contains the socket directories of servers run by root; tests replace it.
var runDir = control.RunDir

// controlHelp describes the flag that names a socket.
func (k *Kind) controlHelp() string { return control.FlagHelp(k.dir()) }

// ask sends a command to the server and decodes its answer into v.
func (k *Kind) ask(ctx context.Context, asked, command string, v any) error {
	path := control.Path(asked, runDir, k.dir())
	if path == "" {
		return control.ErrNoPath
	}
	err := control.Ask(ctx, path, command, v)
	if errors.Is(err, control.ErrNoServer) {
		return fmt.Errorf("%w: start one with %s serve, or name its socket with --control; run this as root, or as the user of the server", err, k.name())
	}
	return err
}

// A running is a running server as the commands on the control socket see it.
type running struct {
	// Set once.
	o       *options
	set     *exportSet
	service *nfsserver.Service
	metrics *metrics
	started time.Time
}

// begin answers commands until ctx ends. end returns after the socket is removed, so that no
// command reaches an ended server.
func (r *running) begin(ctx context.Context) (end func()) {
	end = func() {}
	path := control.Path(r.o.control, runDir, r.o.kind.dir())
	if path == "" {
		logrus.Warnf("no control socket, so %s status, reload and the like do not reach this server: set XDG_RUNTIME_DIR, or name a socket with --control",
			r.o.kind.name())
		return end
	}
	s, err := control.Listen(path, r.answer)
	switch {
	case err == nil:
		end = sync.OnceFunc(func() { s.Close() })
		context.AfterFunc(ctx, end)
	case errors.Is(err, control.ErrTaken) && r.o.control == "":
		// two servers on one machine are allowed, so this is no warning
		logrus.Infof("%s status, reload and the like do not reach this server: %v; give this one a --control of its own", r.o.kind.name(), err)
	default:
		logrus.Warnf("%s status, reload and the like do not reach this server (name another socket with --control): %v", r.o.kind.name(), err)
	}
	return end
}

// answer returns the answer to a command.
func (r *running) answer(command string) (any, error) {
	switch command {
	case "reload":
		done, err := r.reload()
		if errors.Is(err, errNoFile) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("the server goes on with what it has: %w", err)
		}
		return done, nil
	case "status":
		return r.status(), nil
	case "clients":
		return r.clients(), nil
	case "locks":
		return r.locks(), nil
	case "exports":
		return r.exports(), nil
	case "figures":
		return r.figures()
	case "drain", "undrain":
		return r.drain(command == "drain"), nil
	}
	return nil, fmt.Errorf("the server does not know the command %.32q: it is of another version", command)
}
