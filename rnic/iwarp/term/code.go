// Terminate codes: the three numbers of an error on the wire, and its description.

// Package term has the errors that end an RDMAP stream: their codes, a Go type for each side's
// errors, and the Terminate message (RFC 5040 §4.8).
package term

import "fmt"

// A Code is an error's Terminate Control: the layer that found it, the error type and the number
// within the type (RFC 5040 §4.8, RFC 5041 §7.1, RFC 5044 §8).
type Code struct {
	Layer, EType, Code uint8
}

// Layers, the upper four bits of the first Terminate byte.
const (
	LayerRDMAP uint8 = 0
	LayerDDP   uint8 = 1
	LayerLLP   uint8 = 2
)

// String describes the code in words, then in numbers: "DDP tagged buffer: invalid STag (1/1/00)".
func (c Code) String() string {
	words, ok := names[c]
	switch {
	case ok:
	case c.Layer == LayerRDMAP && c.EType == 0:
		words = "RDMAP local catastrophic error" // the code byte has no meaning here
	default:
		words = "unknown Terminate code"
	}
	return fmt.Sprintf("%s (%x/%x/%02x)", words, c.Layer, c.EType, c.Code)
}

// Known reports whether the RFCs define the code.
func (c Code) Known() bool {
	_, ok := names[c]
	return ok || c.Layer == LayerRDMAP && c.EType == 0
}
