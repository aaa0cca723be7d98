// The table of Terminate codes, as in the RFCs: one variable and one description for each.

package term

// RDMAP errors (RFC 5040 §4.8). Equal errors have other numbers in other layers: "not of this
// stream" is 03 here and 02 in DDP.
var (
	RDMAPLocal             = Code{0, 0, 0x00} // local catastrophic error; the code byte is ignored
	RDMAPInvalidSTag       = Code{0, 1, 0x00}
	RDMAPBounds            = Code{0, 1, 0x01}
	RDMAPAccess            = Code{0, 1, 0x02}
	RDMAPSTagNotOfStream   = Code{0, 1, 0x03}
	RDMAPWrap              = Code{0, 1, 0x04}
	RDMAPForeignInvalidate = Code{0, 1, 0x09} // remote protection: another stream's STag
	RDMAPProtection        = Code{0, 1, 0xff} // unspecified
	RDMAPVersion           = Code{0, 2, 0x05}
	RDMAPOpcode            = Code{0, 2, 0x06}
	RDMAPStream            = Code{0, 2, 0x07} // catastrophic for this stream
	RDMAPGlobal            = Code{0, 2, 0x08} // catastrophic for the whole device
	RDMAPCannotInvalidate  = Code{0, 2, 0x09} // remote operation: unknown or invalid STag
	RDMAPOperation         = Code{0, 2, 0xff} // unspecified
)

// DDP errors (RFC 5041 §7.1).
var (
	DDPLocal           = Code{1, 0, 0x00}
	DDPInvalidSTag     = Code{1, 1, 0x00}
	DDPBounds          = Code{1, 1, 0x01}
	DDPSTagNotOfStream = Code{1, 1, 0x02}
	DDPWrap            = Code{1, 1, 0x03}
	DDPTaggedVersion   = Code{1, 1, 0x04}
	DDPInvalidQN       = Code{1, 2, 0x01}
	DDPNoBuffer        = Code{1, 2, 0x02} // MSN without a buffer
	DDPMSNRange        = Code{1, 2, 0x03}
	DDPInvalidMO       = Code{1, 2, 0x04}
	DDPTooLong         = Code{1, 2, 0x05}
	DDPUntaggedVersion = Code{1, 2, 0x06}
)

// MPA errors (RFC 5044 §8; 05 to 07: RFC 6581 §8).
var (
	MPAClosed  = Code{2, 0, 0x01} // TCP closed or lost
	MPACRC     = Code{2, 0, 0x02}
	MPAMarker  = Code{2, 0, 0x03} // marker and length disagree
	MPAStartup = Code{2, 0, 0x04} // invalid Request or Reply frame
	MPALocal   = Code{2, 0, 0x05} // local catastrophic error during enhanced set-up
	MPAIRD     = Code{2, 0, 0x06}
	MPARTR     = Code{2, 0, 0x07}
)

var names = map[Code]string{
	RDMAPLocal:             "RDMAP local catastrophic error",
	RDMAPInvalidSTag:       "RDMAP remote protection: invalid STag",
	RDMAPBounds:            "RDMAP remote protection: base or bounds violation",
	RDMAPAccess:            "RDMAP remote protection: access rights violation",
	RDMAPSTagNotOfStream:   "RDMAP remote protection: STag not associated with the stream",
	RDMAPWrap:              "RDMAP remote protection: tagged offset wraps",
	RDMAPForeignInvalidate: "RDMAP remote protection: STag cannot be invalidated",
	RDMAPProtection:        "RDMAP remote protection: unspecified",
	RDMAPVersion:           "RDMAP remote operation: invalid RDMAP version",
	RDMAPOpcode:            "RDMAP remote operation: unexpected opcode",
	RDMAPStream:            "RDMAP remote operation: catastrophic, stream",
	RDMAPGlobal:            "RDMAP remote operation: catastrophic, global",
	RDMAPCannotInvalidate:  "RDMAP remote operation: STag cannot be invalidated",
	RDMAPOperation:         "RDMAP remote operation: unspecified",

	DDPLocal:           "DDP local catastrophic error",
	DDPInvalidSTag:     "DDP tagged buffer: invalid STag",
	DDPBounds:          "DDP tagged buffer: base or bounds violation",
	DDPSTagNotOfStream: "DDP tagged buffer: STag not associated with the stream",
	DDPWrap:            "DDP tagged buffer: tagged offset wraps",
	DDPTaggedVersion:   "DDP tagged buffer: invalid DDP version",
	DDPInvalidQN:       "DDP untagged buffer: invalid queue number",
	DDPNoBuffer:        "DDP untagged buffer: no buffer for this message",
	DDPMSNRange:        "DDP untagged buffer: message sequence number out of range",
	DDPInvalidMO:       "DDP untagged buffer: invalid message offset",
	DDPTooLong:         "DDP untagged buffer: message too long for its buffer",
	DDPUntaggedVersion: "DDP untagged buffer: invalid DDP version",

	MPAClosed:  "MPA: TCP connection closed or lost",
	MPACRC:     "MPA: CRC error",
	MPAMarker:  "MPA: marker and ULPDU length disagree",
	MPAStartup: "MPA: invalid start-up frame",
	MPALocal:   "MPA: local catastrophic error",
	MPAIRD:     "MPA: insufficient IRD resources",
	MPARTR:     "MPA: no matching RTR option",
}
