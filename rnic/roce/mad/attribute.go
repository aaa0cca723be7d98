// The communication management messages, by attribute.

package mad

import "strconv"

// Attribute is a datagram's AttributeID, which names its message (IBA 16.7.3).
type Attribute uint16

// The messages.
const (
	AttrREQ     Attribute = 0x10
	AttrMRA     Attribute = 0x11
	AttrREJ     Attribute = 0x12
	AttrREP     Attribute = 0x13
	AttrRTU     Attribute = 0x14
	AttrDREQ    Attribute = 0x15
	AttrDREP    Attribute = 0x16
	AttrSIDRREQ Attribute = 0x17
	AttrSIDRREP Attribute = 0x18
	AttrLAP     Attribute = 0x19
	AttrAPR     Attribute = 0x1a
)

var attributes = [...]string{
	AttrREQ: "REQ", AttrMRA: "MRA", AttrREJ: "REJ", AttrREP: "REP", AttrRTU: "RTU", AttrDREQ: "DREQ", AttrDREP: "DREP",
	AttrSIDRREQ: "SIDR_REQ", AttrSIDRREP: "SIDR_REP", AttrLAP: "LAP", AttrAPR: "APR",
}

func (a Attribute) String() string { return name(attributes[:], int(a), "attribute ") }

// name returns table entry i, or kind and the number if there is none.
func name(table []string, i int, kind string) string {
	if i < len(table) && table[i] != "" {
		return table[i]
	}
	return kind + strconv.Itoa(i)
}
