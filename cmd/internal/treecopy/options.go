// What a run is asked for, and what it tells while it goes on.

package treecopy

import "io/fs"

// Follow is which symbolic links of the sources are followed.
type Follow uint8

// The choices of -P, -H and -L.
const (
	FollowNever Follow = iota
	FollowOperands
	FollowAlways
)

// Overwrite is what happens to a target that exists.
type Overwrite uint8

// The choices of nothing, -n and -i.
const (
	OverwriteAlways Overwrite = iota
	OverwriteNever
	OverwriteAsk
)

// Sparse is how holes are made.
type Sparse uint8

// The choices of --sparse.
const (
	SparseAuto   Sparse = iota // where the source has some
	SparseAlways               // for all runs of zeros
	SparseNever
)

// Preserve is what a copy takes over from its source. Without Mode, a new file
// has the source's permissions less the umask, and a file that exists keeps its own.
type Preserve struct{ Mode, Owner, Times, Links bool }

func (p Preserve) attrs() bool { return p.Mode || p.Owner || p.Times }

// Options is how a Run behaves. Report must be set.
type Options struct {
	Recursive   bool
	Follow      Follow
	Preserve    Preserve
	Overwrite   Overwrite
	Update      bool // leave targets that are not older
	Force       bool // replace targets that must not be written
	RemoveDest  bool // replace targets, whatever they are, but directories
	PlainMode   bool // new objects get no permissions of their sources
	InPlace     bool // write to the target itself, not to a temporary file
	NoTargetDir bool // the destination is a target, even if it is a directory
	TargetDir   bool // the destination has to be a directory
	Sparse      Sparse
	move        bool // sources go afterwards: nothing that failed may count as done
	Umask       fs.FileMode

	// Privileged says that this process may give files away: what it cannot give
	// away is then an error.
	Privileged bool

	Report  func(*Error)        // told of each failure; the run goes on
	Warn    func(string)        // told of what is passed over
	Verbose func(string)        // told of each object, in the words of -v; may be nil
	Ask     func(string) bool   // asks a question of the user
	Quote   func(string) string // writes a name; nil: between single quotes
}

// An Error is one thing that was not done.
type Error struct {
	What    string // "cannot stat 'a'"
	Err     error  // nil if What is complete
	Warning bool   // the rest goes on as if it had been done
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// An Operand is a path of the command line.
type Operand struct {
	Tree Tree
	Path string // as Tree takes it
	Name string // its last component, which may be "." or ".."
	Text string // as it was written
	Err  error  // why there is no Tree
}

// quote writes a name for a message.
func (r *Run) quote(s string) string {
	if r.opt.Quote != nil {
		return r.opt.Quote(s)
	}
	return "'" + s + "'"
}
