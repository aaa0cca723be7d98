// Where the socket is.

package control

import (
	"errors"
	"os"
	"path/filepath"
)

// RootPath is the socket of a server that root runs.
const RootPath = "/run/nfsrdma/control"

// FlagHelp describes the flag that names a socket.
const FlagHelp = "socket by which commands reach the server (default: " + RootPath + ", or $XDG_RUNTIME_DIR/nfsrdma/control)"

// ErrNoPath is that there is no place for the socket of a user.
var ErrNoPath = errors.New("there is no XDG_RUNTIME_DIR: name the server's socket with --control")

// Path is the socket that was asked for, or else that of the user who runs the program: root's is named. "": there is
// no place for it.
func Path(asked, root string) string {
	switch {
	case asked != "":
		return asked
	case os.Geteuid() == 0:
		return root
	case os.Getenv("XDG_RUNTIME_DIR") != "":
		return filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "nfsrdma", "control")
	}
	return ""
}
