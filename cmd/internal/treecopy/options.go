// The options of a run, and its callbacks.

package treecopy

import "io/fs"

// Follow selects the symbolic links in the sources to follow.
type Follow uint8

// The choices of -P, -H and -L.
const (
	FollowNever Follow = iota
	FollowOperands
	FollowAlways
)

// Overwrite selects the handling of existing targets.
type Overwrite uint8

// The choices of the default, -n and -i.
const (
	OverwriteAlways Overwrite = iota
	OverwriteNever
	OverwriteAsk
)

// Sparse selects when to make holes.
type Sparse uint8

// When holes are made, as with --sparse.
const (
	SparseAuto   Sparse = iota // if the source has holes
	SparseAlways               // for all runs of zeros
	SparseNever
)

// Preserve selects the attributes to copy. Without Mode, a new file gets the source's permissions
// minus the umask, and an existing file keeps its permissions.
type Preserve struct{ Mode, Owner, Times, Links bool }

func (p Preserve) attrs() bool { return p.Mode || p.Owner || p.Times }

// Options configure a Run. Report must be set.
type Options struct {
	Recursive   bool
	Follow      Follow
	Preserve    Preserve
	Overwrite   Overwrite
	Update      bool // keep targets that are not older
	Force       bool // replace targets without write permission
	RemoveDest  bool // replace targets of any type except directories
	PlainMode   bool // new objects ignore their sources' permissions
	InPlace     bool // write to the target itself, without a temporary file
	NoTargetDir bool // treat the destination as a target, even if it is a directory
	TargetDir   bool // the destination must be a directory
	Sparse      Sparse
	move        bool // sources are removed afterwards, so no failure may be ignored
	Umask       fs.FileMode

	// Privileged means that this process may change owners, so a failure to do so is an error.
	Privileged bool

	Report  func(*Error)        // called for each failure; the run continues
	Warn    func(string)        // called for each skipped object
	Verbose func(string)        // called for each object, in the words of -v; may be nil
	Ask     func(string) bool   // asks the user a question
	Quote   func(string) string // formats a name; nil: between single quotes
}

// An Error is one failed step.
type Error struct {
	What    string // "cannot stat 'a'"
	Err     error  // nil if What is complete
	Warning bool   // the run continues as if the step had succeeded
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// An Operand is a path in the command line.
type Operand struct {
	Tree Tree
	Path string // in Tree's syntax
	Name string // the last component, possibly "." or ".."
	Text string // as typed
	Err  error  // why Tree is nil
}

// quote formats a name for a message.
func (r *Run) quote(s string) string {
	if r.opt.Quote != nil {
		return r.opt.Quote(s)
	}
	return "'" + s + "'"
}
