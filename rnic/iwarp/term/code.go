// Terminate codes: the three numbers that name an error on the wire, and their words.

// Package term holds the errors that end an RDMAP stream: their codes, the two
// Go types that say whose error it is, and the Terminate message (RFC 5040 §4.8).
package term

import "fmt"

// A Code is the Terminate Control of an error: the layer that found it, the
// kind and the number within the kind (RFC 5040 §4.8, RFC 5041 §7.1, RFC 5044 §8).
type Code struct {
	Layer, EType, Code uint8
}

// Layers, the upper four bits of the first Terminate byte.
const (
	LayerRDMAP uint8 = 0
	LayerDDP   uint8 = 1
	LayerLLP   uint8 = 2
)

// String gives the code in words, then in numbers: "DDP tagged buffer: invalid STag (1/1/00)".
func (c Code) String() string {
	words, ok := names[c]
	switch {
	case ok:
	case c.Layer == LayerRDMAP && c.EType == 0:
		words = "RDMAP local catastrophic error" // the code byte means nothing here
	default:
		words = "unknown Terminate code"
	}
	return fmt.Sprintf("%s (%x/%x/%02x)", words, c.Layer, c.EType, c.Code)
}

// Known reports whether the RFCs give the code a meaning.
func (c Code) Known() bool {
	_, ok := names[c]
	return ok || c.Layer == LayerRDMAP && c.EType == 0
}
