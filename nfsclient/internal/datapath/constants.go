// The constants of the engine: sizes and thresholds, and why each has its value. Config has the
// others.

package datapath

// Writing.
const (
	// maxOps is the number of WRITEs in flight for one file. 32: 32 MiB with the largest WRITEs.
	// All files together have no bound, so that a file with slow WRITEs does not delay others.
	maxOps = 32

	// minBuffer is the smallest buffer in bytes. 4 KiB: one buffer takes many small writes to a
	// page.
	minBuffer = 4 << 10
)

// Reading ahead.
const (
	// sequential is the number of reads in a row that make a reader sequential. Three: two adjacent
	// reads are often a coincidence.
	sequential = 3

	// firstWindow is the least first read-ahead, in bytes. 128 KiB: Linux's default read-ahead.
	firstWindow = 128 << 10

	// reorder is how far reads may be out of order, in read lengths. Four: some reads of one reader
	// are in flight at once, and arrive in any order.
	reorder = 4
)
