// The matrix: each way to change a file, each way to see it, each event between them.

package several

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// A Cell is a schedule of the matrix.
type Cell struct {
	Name  string
	Steps []Step
}

// The looking actor has open file 1 from the beginning and opens file 2. The changing actor has
// file 1 open and opens the others. Files 1 and 2 are the file "a".
const held, again, source = 1, 2, 3

// sizeBefore is the initial size of the changed file.
const sizeBefore = 5000

// A change is a way to change a file.
type change struct {
	name  string
	flags string // for open file 2; "": no open file
	steps []Step
}

// changes are the ways to change a file, on open file 2 if a change needs an open file.
var changes = []change{
	{"overwrite", "w", []Step{{Op: PWrite, Fd: again, Off: 100, N: 4000, Val: 2}}},
	{"write-past-the-end", "w", []Step{{Op: PWrite, Fd: again, Off: 9000, N: 5000, Val: 2}}},
	{"append", "w append", []Step{{Op: Append, Fd: again, N: 5000, Val: 2}}},
	{"append-within-page", "w append", []Step{{Op: Append, Fd: again, N: 100, Val: 2}}},
	{"append-to-page-end", "w append", []Step{{Op: Append, Fd: again, N: 2*page - sizeBefore, Val: 2}}},
	{"append-past-page-end", "w append", []Step{{Op: Append, Fd: again, N: 2*page + 1 - sizeBefore, Val: 2}}},
	{"shorten", "w", []Step{{Op: FTruncate, Fd: again, Off: 100}}},
	{"shorten-to-nothing", "w", []Step{{Op: FTruncate, Fd: again}}},
	{"lengthen", "w", []Step{{Op: FTruncate, Fd: again, Off: 12000}}},
	{"truncate", "", []Step{{Op: Truncate, Name: "a", Off: 4096}}},
	{"empty", "w trunc", nil},
	{"empty-and-write", "w trunc", []Step{{Op: PWrite, Fd: again, N: 200, Val: 2}}},
	{"store", "w", []Step{{Op: Store, Fd: again, Off: 50, N: 4500, Val: 2}}},
	{"fallocate", "w", []Step{{Op: Fallocate, Fd: again, Off: 4000, N: 9000}}},
	{"copy-range", "w", []Step{
		{Op: Open, Name: "b", Fd: source, Flags: "w creat"}, {Op: PWrite, Fd: source, N: 6000, Val: 3},
		{Op: CopyRange, Fd: source, ToFd: again, ToOff: 2000, N: 6000}, {Op: Close, Fd: source},
	}},
	{"copy-within", "w", []Step{
		{Op: Open, Name: "a", Fd: source, Flags: "r"}, {Op: CopyRange, Fd: source, ToFd: again, ToOff: sizeBefore, N: 3000}, {Op: Close, Fd: source},
	}},
	{"rename-over", "", []Step{
		{Op: Create, Name: "b", Fd: source}, {Op: PWrite, Fd: source, N: 7000, Val: 3}, {Op: Close, Fd: source}, {Op: Rename, Name: "b", To: "a"},
	}},
	{"remove-and-make", "", []Step{
		{Op: Unlink, Name: "a"}, {Op: Create, Name: "a", Fd: source}, {Op: PWrite, Fd: source, N: 300, Val: 3}, {Op: Close, Fd: source},
	}},
	{"chmod", "r", []Step{{Op: FChmod, Fd: again, Val: 0o600}}},
	{"times", "r", []Step{{Op: FTimes, Fd: again, Val: 1_100_000_000}}},
	{"acl", "r", []Step{{Op: FSetACL, Fd: again, Val: 1234}}},
}

// A sight is a way to see a file.
type sight struct {
	name  string
	flags string // of the open file
	steps []Step
}

// sights are the ways to see an open file, whose number is filled in. A write is also a sight:
// later reads show the write's offset.
var sights = []sight{
	{"read", "r", []Step{{Op: Read}}},
	{"pread", "r", []Step{{Op: PRead, Off: 4000, N: 3000}}},
	{"pread-past-the-end", "r", []Step{{Op: PRead, Off: 11000, N: 3000}}},
	{"pread-of-all-ends", "r", []Step{
		{Op: PRead, Off: 90, N: 100}, {Op: PRead, Off: 290, N: 100}, {Op: PRead, Off: 4090, N: 100}, {Op: PRead, Off: 5000, N: 100},
		{Op: PRead, Off: 5100, N: 100}, {Op: PRead, Off: 8000, N: 200}, {Op: PRead, Off: 8193, N: 100}, {Op: PRead, Off: 12288, N: 100},
	}},
	{"mmap", "r", []Step{{Op: Map, N: 1 << 20}}},
	{"mmap-of-the-last", "r", []Step{{Op: Map, Off: 8999, N: 1 << 20}}},
	{"sendfile", "r", []Step{{Op: SendFile, N: 1 << 20}}},
	{"splice", "r", []Step{{Op: Splice, N: 1 << 20}}},
	{"seek-end", "r", []Step{{Op: SeekEnd}}},
	{"fstat", "r", []Step{{Op: FStat}}},
	{"getfacl", "r", []Step{{Op: FGetACL}}},
	{"stat", "r", []Step{{Op: Stat, Name: "a"}}},
	{"readdir", "r", []Step{{Op: ReadDir}}},
	{"append", "w append", []Step{{Op: Append, N: 77, Val: 9}}},
	{"append-and-read", "w append", []Step{{Op: Append, N: 77, Val: 9}, {Op: Read}}},
	{"append-by-fcntl", "w append fcntl", []Step{{Op: Append, N: 77, Val: 9}}},
	{"pwrite", "w", []Step{{Op: PWrite, Off: 3, N: 1, Val: 9}}},
	{"store-of-the-last", "w", []Step{{Op: Store, Off: -1, N: 1, Val: 9}}},
	{"seek-end-write", "w", []Step{{Op: SeekWrite, N: 77, Val: 9}}},
	{"store", "w", []Step{{Op: Store, Off: 5050, N: 77, Val: 9}}},
	{"copy-range", "w", []Step{
		{Op: Open, Name: "copy", Fd: source, Flags: "w creat"}, {Op: CopyRange, ToFd: source, N: 1 << 20}, {Op: Read, Fd: source}, {Op: Close, Fd: source},
	}},
}

// An event comes between change and sight.
type event struct {
	name        string
	fd          int  // the open file used to see
	closed      bool // open file 1 is closed before the change
	first, last []Step
}

// events make a change visible; one event does nothing.
var events = []event{
	{"open", again, false, []Step{{Op: Open, Name: "a", Fd: again}}, []Step{{Op: Close, Fd: again}}},
	{"open-and-fstat", again, false, []Step{{Op: Open, Name: "a", Fd: again}, {Op: FStat, Fd: again}}, []Step{{Op: Close, Fd: again}}},
	{"reopen", again, true, []Step{{Op: Open, Name: "a", Fd: again}}, []Step{{Op: Close, Fd: again}}},
	{"reopen-and-fstat", again, true, []Step{{Op: Open, Name: "a", Fd: again}, {Op: FStat, Fd: again}}, []Step{{Op: Close, Fd: again}}},
	{"fcntl", held, false, []Step{{Op: Lock, Fd: held, Flags: "fcntl"}}, []Step{{Op: Unlock, Fd: held, Flags: "fcntl"}}},
	{"fcntl-shared", held, false, []Step{{Op: Lock, Fd: held, Flags: "fcntl-shared"}}, []Step{{Op: Unlock, Fd: held, Flags: "fcntl-shared"}}},
	{"flock", held, false, []Step{{Op: Lock, Fd: held, Flags: "flock"}}, []Step{{Op: Unlock, Fd: held, Flags: "flock"}}},
	{"flock-shared", held, false, []Step{{Op: Lock, Fd: held, Flags: "flock-shared"}}, []Step{{Op: Unlock, Fd: held, Flags: "flock-shared"}}},
	{"fstat", held, false, []Step{{Op: FStat, Fd: held}}, nil},
	{"nothing", held, false, nil, nil},
}

// Matrix returns the schedules in which one actor changes and another looks. At the end of each
// schedule both actors read the content.
func Matrix(changer, looker int) []Cell {
	var cells []Cell
	for _, c := range changes {
		for _, s := range sights {
			for _, e := range events {
				cells = append(cells, Cell{fmt.Sprintf("%s,%s,%s", c.name, e.name, s.name), cell(changer, looker, c, s, e)})
			}
		}
	}
	return cells
}

// AllPairs makes CheckMatrix run each cell for each pair.
const AllPairs = -1

// CheckMatrix runs cells of the matrix for pairs of changer and looker, and returns their number:
// for all pairs, or each cell for one pair, or a random 1/every of those cells, from a seed. The
// error is the error that ended an actor.
func (w *World) CheckMatrix(pairs [][2]int, seed uint64, every int, failed func(error)) (cells int, err error) {
	for i, pair := range pairs {
		for at, c := range Matrix(pair[0], pair[1]) {
			if every != AllPairs && rand.New(rand.NewPCG(seed, uint64(at))).IntN(len(pairs)*every) != i {
				continue
			}
			cells++
			_, err := w.Run(c.Steps)
			var f *Failure
			if err != nil && !errors.As(err, &f) {
				return cells, fmt.Errorf("%s: %w", c.Name, err)
			}
			if err != nil {
				failed(fmt.Errorf("%s, changed by actor %d, seen by actor %d: %w", c.Name, pair[0], pair[1], w.Shrink(f)))
			}
		}
	}
	return cells, nil
}

// cell returns the schedule of one cell.
func cell(changer, looker int, c change, s sight, e event) []Step {
	var all []Step
	by := func(actor int, steps ...Step) {
		for _, s := range steps {
			s.Actor = actor
			all = append(all, s)
		}
	}
	by(changer, Step{Op: Open, Name: "a", Fd: held, Flags: "w creat"}, Step{Op: PWrite, Fd: held, N: sizeBefore, Val: 1}, Step{Op: Close, Fd: held})
	heldFlags := "r" // Linux's client keeps its pages while the file is open for writing
	if e.fd == held && s.flags != "r" {
		heldFlags = s.flags
	} else if e.name == "fcntl" || e.name == "flock" {
		heldFlags = "w"
	}
	by(looker, Step{Op: Open, Name: "a", Fd: held, Flags: heldFlags}, Step{Op: Read, Fd: held}, Step{Op: FStat, Fd: held}, Step{Op: FGetACL, Fd: held}, Step{Op: Map, Fd: held, N: 1 << 20})
	if e.closed {
		by(looker, Step{Op: Close, Fd: held})
	}
	if c.flags != "" {
		by(changer, Step{Op: Open, Name: "a", Fd: again, Flags: c.flags})
	}
	by(changer, c.steps...)
	if c.flags != "" {
		by(changer, Step{Op: Close, Fd: again})
	}
	for _, step := range e.first {
		if step.Op == Open {
			step.Flags = s.flags
		}
		by(looker, step)
	}
	for _, step := range s.steps {
		if step.Fd == 0 && step.Op != Open && step.Op != Stat && step.Op != ReadDir {
			step.Fd = e.fd
		}
		by(looker, step)
	}
	by(looker, e.last...)
	if !e.closed {
		by(looker, Step{Op: Close, Fd: held})
	}
	for _, actor := range []int{changer, looker} {
		by(actor, Step{Op: Open, Name: "a", Fd: held, Flags: "r"}, Step{Op: Read, Fd: held}, Step{Op: Close, Fd: held})
	}
	return all
}
