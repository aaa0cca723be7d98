// Result bytes read when they are sent.

package mem

import "io"

// A DeferredRead supplies bytes read just before they are sent, not when the call is answered:
// until then no buffer holds them. Reading them should be as fast as a copy, since they were in the
// kernel's memory when the DeferredRead was made. It has one owner at a time, from its creation to
// Done.
type DeferredRead interface {
	// ReadAt follows io.ReaderAt: fewer bytes than requested only with an error, io.EOF at the end.
	io.ReaderAt
	// Done ends the use of the DeferredRead.
	Done()
}

// A Cut changes an encoded reply, the stream up to its first item, to declare that the item has n
// bytes, fewer than before. end: the file has no more bytes.
type Cut func(stream []byte, n int, end bool)
