// A step of a schedule and its outcome, in a readable form that processes exchange.

package several

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// An Op is a kind of step.
type Op string

// The kinds of steps: on an open file, or on a name in the schedule's directory.
const (
	Open   Op = "open"
	Create Op = "create" // O_CREAT and O_EXCL
	Close  Op = "close"

	PWrite    Op = "pwrite"
	Append    Op = "append"   // write(2) to a file opened with O_APPEND
	SeekWrite Op = "seek-end" // lseek to the end, and write(2)
	Store     Op = "store"    // by mmap and msync
	FTruncate Op = "ftruncate"
	Fallocate Op = "fallocate"
	CopyRange Op = "copy_file_range" // from one open file to another
	FChmod    Op = "fchmod"
	FTimes    Op = "futimens"
	FSetACL   Op = "setfacl"
	FSync     Op = "fsync"
	Lock      Op = "lock" // without waiting for the lock
	Unlock    Op = "unlock"

	Read     Op = "read" // from the beginning to the end
	PRead    Op = "pread"
	Map      Op = "mmap"
	SendFile Op = "sendfile"
	Splice   Op = "splice"
	SeekEnd  Op = "lseek"
	FStat    Op = "fstat"
	FGetACL  Op = "getfacl"

	Unlink   Op = "unlink"
	Rename   Op = "rename"
	Truncate Op = "truncate"
	Stat     Op = "stat"
	ReadDir  Op = "readdir"

	Cat     Op = "cat" // commands: a file's content
	CopyIn  Op = "cp"  // writes a file in place
	Restart Op = "restart"

	mkdir Op = "mkdir" // of the schedule's directory
	clear Op = "clear" // the schedule's directory and all open files
)

// A Step is one action of one actor.
type Step struct {
	Actor int
	Op    Op
	Name  string `json:",omitempty"`
	To    string `json:",omitempty"` // rename: the new name
	Fd    int    `json:",omitempty"` // the number of an open file, from 1
	ToFd  int    `json:",omitempty"` // copy_file_range: the file to write
	// open: r or w, then "append" "trunc" "creat", and "fcntl" for an O_APPEND set by F_SETFL;
	// lock: fcntl or flock, and those with "-shared"
	Flags string `json:",omitempty"`
	Off   int64  `json:",omitempty"`
	ToOff int64  `json:",omitempty"`
	N     int64  `json:",omitempty"` // a count of bytes
	Val   int    `json:",omitempty"` // the byte to write, a mode, a time, or the user of an ACL
}

func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s", s.Actor, s.Op)
	if s.Op == Restart {
		return string(s.Op) + " of the server"
	}
	for _, w := range []string{s.Name, s.To, s.Flags} {
		if w != "" {
			b.WriteString(" " + w)
		}
	}
	if s.Fd > 0 {
		fmt.Fprintf(&b, " #%d", s.Fd)
	}
	if s.ToFd > 0 {
		fmt.Fprintf(&b, " to #%d at %d", s.ToFd, s.ToOff)
	}
	switch s.Op {
	case PWrite, Store, Append, SeekWrite, CopyIn:
		fmt.Fprintf(&b, " %d bytes of %#x", s.N, s.Val)
	case FChmod:
		fmt.Fprintf(&b, " %#o", s.Val)
	case FTimes, FSetACL:
		fmt.Fprintf(&b, " %d", s.Val)
	case PRead, Map, SendFile, Splice, Fallocate, CopyRange:
		fmt.Fprintf(&b, " %d bytes", s.N)
	}
	switch s.Op {
	case PWrite, Store, PRead, Map, SendFile, Splice, Fallocate, CopyRange:
		fmt.Fprintf(&b, " at %d", s.Off)
	case FTruncate, Truncate:
		fmt.Fprintf(&b, " to %d", s.Off)
	}
	return b.String()
}

// An Outcome is the result of a step.
type Outcome struct {
	Err   string   `json:",omitempty"` // the errno's name, or SIGBUS; "" for success
	N     int64    `json:",omitempty"` // a count, position or size
	Data  []byte   `json:",omitempty"`
	Mode  uint32   `json:",omitempty"`
	Time  int64    `json:",omitempty"` // the modification time if it was set, otherwise 0
	ACL   int      `json:",omitempty"` // the user in the ACL, 0 without one
	Names []string `json:",omitempty"`
}

func (o Outcome) String() string {
	var w []string
	if o.Err != "" {
		w = append(w, o.Err)
	}
	if o.N != 0 {
		w = append(w, fmt.Sprint(o.N))
	}
	if o.Data != nil {
		w = append(w, runs(o.Data))
	}
	if o.Mode != 0 {
		w = append(w, fmt.Sprintf("mode %#o", o.Mode))
	}
	if o.Time != 0 {
		w = append(w, fmt.Sprintf("time %d", o.Time))
	}
	if o.ACL != 0 {
		w = append(w, fmt.Sprintf("ACL %d", o.ACL))
	}
	if o.Names != nil {
		w = append(w, fmt.Sprint(o.Names))
	}
	if len(w) == 0 {
		return "0"
	}
	return strings.Join(w, " ")
}

// runs formats data as runs of equal bytes.
func runs(data []byte) string {
	var w []string
	for i := 0; i < len(data); {
		j := i
		for j < len(data) && data[j] == data[i] {
			j++
		}
		if len(w) == 8 {
			return fmt.Sprintf("[%s … %d bytes in all, CRC %08x]", strings.Join(w, " "), len(data), crc32.ChecksumIEEE(data))
		}
		w = append(w, fmt.Sprintf("%d×%#x", j-i, data[i]))
		i = j
	}
	return "[" + strings.Join(w, " ") + "]"
}
