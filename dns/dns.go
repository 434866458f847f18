package dns

import "net/netip"

// Type is a type of records, by its number in the protocol.
type Type uint16

// The types that a Zone knows.
const (
	TypeA     Type = 1
	TypeNS    Type = 2
	TypeCNAME Type = 5
	TypeSOA   Type = 6
	TypePTR   Type = 12
	TypeMX    Type = 15
	TypeTXT   Type = 16
	TypeAAAA  Type = 28
	TypeSRV   Type = 33
	TypeIXFR  Type = 251
	TypeAXFR  Type = 252
)

// Code is the outcome of a question, by its number in the protocol.
type Code uint8

// Codes of answers.
const (
	Success       Code = 0
	ServerFailure Code = 2
	NameError     Code = 3 // NXDOMAIN
	Refused       Code = 5
)

// Question asks for the records of a type under a name of class IN.
type Question struct {
	// Name is fully qualified, with a dot at its end, in any case, in the notation of zone files: special bytes are
	// escaped by a backslash.
	Name string
	Type Type
}

// Record is a resource record of class IN.
type Record struct {
	Name string
	Type Type
	// TTL is in seconds.
	TTL uint32
	// Address is of A and AAAA.
	Address netip.Addr
	// Target is the name that CNAME, NS, PTR and SRV point at.
	Target string
	// Port and Weight are of SRV, whose priority is always 0.
	Port, Weight uint16
	// Text is of TXT.
	Text string
	// Authority is of SOA.
	Authority Authority
}

// Authority is the content of an SOA record.
type Authority struct {
	// NS is the name of the zone's server, Mailbox that of whoever is responsible for the zone.
	NS, Mailbox string
	// Serial grows when the zone changes. The rest are seconds, for servers that copy the zone; Minimum is how long
	// resolvers remember that something is missing.
	Serial, Refresh, Retry, Expire, Minimum uint32
}

// Answer is what a Zone knows about a question, with authority.
type Answer struct {
	Code Code
	// Records are the answer.
	Records []Record
	// Extra are the addresses of names in the answer.
	Extra []Record
	// SOA has one record if there are no Records: resolvers remember by it, for its TTL, that there are none.
	SOA []Record
	// Follow is set if the last record is a CNAME that leads out of the zone: Records lacks those of this name and the
	// question's type.
	Follow string
}
