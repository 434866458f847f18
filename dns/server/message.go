package server

import (
	"context"
	"math/rand/v2"

	wire "github.com/miekg/dns"

	"github.com/keelson-dev/keelson/dns"
)

// transport decides how long an answer may be.
type transport int

const (
	packet transport = iota
	stream
)

// Sizes of messages, in bytes.
const (
	header    = 12
	smallest  = 512  // what a client can read that does not say more
	largest   = 1232 // what fits into a packet of any network
	unlimited = wire.MaxMsgSize
)

// pending is a question that another resolver has to answer, all of it or where its answer so far leads.
type pending struct {
	server *Server
	query  *wire.Msg
	limit  int
	so     *wire.Msg // the answer so far, or nil
	name   string
	kind   uint16
}

// answer answers a packed question into buf. It returns nothing for what is not a question, and a pending one if others
// have to answer it.
func (s *Server) answer(query []byte, by transport, buf []byte) ([]byte, *pending) {
	q := new(wire.Msg)
	if code, ok := acceptable(query); !ok {
		return nil, nil
	} else if code != wire.RcodeSuccess {
		return rejection(query, code), nil
	}
	if err := q.Unpack(query); err != nil || len(q.Question) != 1 {
		return rejection(query, wire.RcodeFormatError), nil
	}
	limit := limitOf(q, by)
	reply := new(wire.Msg)
	switch edns := q.IsEdns0(); {
	case edns != nil && edns.Version() != 0:
		return pack(reply.SetRcode(q, wire.RcodeBadVers), q, limit, buf), nil
	case q.Question[0].Qclass != wire.ClassINET:
		return pack(reply.SetRcode(q, wire.RcodeRefused), q, limit, buf), nil
	case s.forward.returned(q.Question[0].Name):
		return pack(reply.SetRcode(q, wire.RcodeServerFailure), q, limit, buf), nil
	}
	ask := q.Question[0]
	a, ours := s.zone.Answer(dns.Question{Name: ask.Name, Type: dns.Type(ask.Qtype)})
	if ours {
		reply.SetRcode(q, int(a.Code))
		fill(reply, a)
		if a.Follow == "" {
			return pack(reply, q, limit, buf), nil
		}
		ask.Name = a.Follow
	} else {
		reply = nil
	}
	p := &pending{server: s, query: q, limit: limit, so: reply, name: ask.Name, kind: ask.Qtype}
	if known, ok := s.forward.known(p.ask()); ok {
		return pack(p.join(known), q, limit, buf), nil
	}
	return nil, p
}

// acceptable reports whether a message is a question, and the code of the answer if it cannot be answered.
func acceptable(query []byte) (code int, ok bool) {
	if len(query) < header {
		return 0, false
	}
	const response, opcode = 0x80, 0x78
	count := func(at int) int { return int(query[at])<<8 | int(query[at+1]) }
	switch {
	case query[2]&response != 0:
		return 0, false
	case query[2]&opcode != 0:
		return wire.RcodeNotImplemented, true
	case count(4) != 1, count(6) > 1, count(8) > 1, count(10) > 2:
		return wire.RcodeFormatError, true
	}
	return wire.RcodeSuccess, true
}

// rejection is the header of a question, as an answer with a code.
func rejection(query []byte, code int) []byte {
	answer := make([]byte, header)
	copy(answer, query[:4])
	answer[2] = answer[2]&0x79 | 0x80 // of the flags, the opcode and that recursion is desired
	answer[3] = byte(code)
	return answer
}

// limitOf is how long the answer to a question may be.
func limitOf(q *wire.Msg, by transport) int {
	if by == stream {
		return unlimited
	}
	if edns := q.IsEdns0(); edns != nil {
		return min(max(int(edns.UDPSize()), smallest), largest)
	}
	return smallest
}

// pack encodes an answer and cuts it to a limit.
func pack(reply, q *wire.Msg, limit int, buf []byte) []byte {
	if edns := q.IsEdns0(); edns != nil {
		reply.SetEdns0(largest, edns.Do())
	}
	out, err := reply.PackBuffer(buf[:cap(buf)])
	if err != nil || len(out) > limit {
		reply.Truncate(limit)
		out, err = reply.PackBuffer(buf[:cap(buf)])
	}
	if err != nil {
		out, err = new(wire.Msg).SetRcode(q, wire.RcodeServerFailure).Pack()
		if err != nil {
			return nil // the question cannot be repeated
		}
	}
	return out
}

// fill puts an answer about the cluster into a message.
func fill(reply *wire.Msg, a dns.Answer) {
	reply.Authoritative = a.Code != dns.Refused
	reply.Answer, reply.Ns, reply.Extra = records(a.Records), records(a.SOA), records(a.Extra)
	shuffle(reply.Answer)
}

// shuffle starts the addresses and services of an answer anywhere, so that clients that take the first are spread.
func shuffle(answer []wire.RR) {
	for len(answer) > 0 && answer[0].Header().Rrtype == wire.TypeCNAME {
		answer = answer[1:]
	}
	if len(answer) < 2 {
		return
	}
	rand.Shuffle(len(answer), func(i, j int) { answer[i], answer[j] = answer[j], answer[i] })
}

// records encodes records for the wire.
func records(list []dns.Record) []wire.RR {
	if len(list) == 0 {
		return nil
	}
	all := make([]wire.RR, 0, len(list))
	for i := range list {
		all = append(all, encode(&list[i]))
	}
	return all
}

func encode(r *dns.Record) wire.RR {
	head := wire.RR_Header{Name: r.Name, Rrtype: uint16(r.Type), Class: wire.ClassINET, Ttl: r.TTL}
	switch r.Type {
	case dns.TypeA, dns.TypeAAAA:
		if r.Type == dns.TypeA {
			return &wire.A{Hdr: head, A: r.Address.AsSlice()}
		}
		return &wire.AAAA{Hdr: head, AAAA: r.Address.AsSlice()}
	case dns.TypeCNAME:
		return &wire.CNAME{Hdr: head, Target: r.Target}
	case dns.TypeNS:
		return &wire.NS{Hdr: head, Ns: r.Target}
	case dns.TypePTR:
		return &wire.PTR{Hdr: head, Ptr: r.Target}
	case dns.TypeSRV:
		return &wire.SRV{Hdr: head, Weight: r.Weight, Port: r.Port, Target: r.Target}
	case dns.TypeTXT:
		return &wire.TXT{Hdr: head, Txt: []string{r.Text}}
	default:
		a := r.Authority
		return &wire.SOA{
			Hdr: head, Ns: a.NS, Mbox: a.Mailbox, Serial: a.Serial, Refresh: a.Refresh, Retry: a.Retry, Expire: a.Expire, Minttl: a.Minimum,
		}
	}
}

// ask is what another resolver is asked.
func (p *pending) ask() asked {
	edns := p.query.IsEdns0()
	return newAsked(p.name, p.kind, edns != nil && edns.Do(), p.query.CheckingDisabled)
}

// join makes the answer of what another resolver answered; nil if none did.
func (p *pending) join(from *wire.Msg) *wire.Msg {
	switch {
	case p.so != nil && from != nil: // the rest of a chain
		p.so.Answer = append(p.so.Answer, from.Answer...)
		p.so.Truncated = from.Truncated
		return p.so
	case p.so != nil:
		return p.so
	case from == nil:
		return new(wire.Msg).SetRcode(p.query, wire.RcodeServerFailure)
	}
	reply := new(wire.Msg).SetRcode(p.query, from.Rcode)
	reply.RecursionAvailable, reply.AuthenticatedData, reply.Truncated = from.RecursionAvailable, from.AuthenticatedData, from.Truncated
	reply.Answer, reply.Ns = from.Answer, from.Ns
	for _, rr := range from.Extra {
		if rr.Header().Rrtype != wire.TypeOPT {
			reply.Extra = append(reply.Extra, rr)
		}
	}
	return reply
}

// finish asks another resolver and returns the packed answer.
func (p *pending) finish(ctx context.Context) []byte {
	if !p.server.forward.any() && p.so == nil {
		return p.refuse()
	}
	from, err := p.server.forward.exchange(ctx, p.ask())
	if err != nil {
		p.server.log.Debug("no resolver answered", "name", p.name, "error", err)
	}
	return pack(p.join(from), p.query, p.limit, nil)
}

// refuse returns the packed answer if nobody else can be asked.
func (p *pending) refuse() []byte {
	if p.so != nil {
		return pack(p.so, p.query, p.limit, nil)
	}
	return pack(new(wire.Msg).SetRcode(p.query, wire.RcodeRefused), p.query, p.limit, nil)
}
