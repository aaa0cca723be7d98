// Bytes of a result that are read when they leave.

package mem

import "io"

// A Later has bytes that are read when they are about to be sent, and not when the call is
// answered: until then nothing holds them. To read them takes no longer than to copy them, as a
// rule: they are in the kernel's memory when it is made. A Later has one owner at a time, from who
// has made it to Done.
type Later interface {
	// ReadAt is as io.ReaderAt has it: fewer bytes than asked for only with an error, io.EOF where
	// there are no more.
	io.ReaderAt
	// Done ends its use.
	Done()
}

// A Cut makes an encoded reply, stream up to the place of its first item, say that the item has n
// bytes, fewer than it said before. end: because there are no more.
type Cut func(stream []byte, n int, end bool)
