package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	wire "github.com/miekg/dns"
)

// Timeouts of questions to other resolvers.
const (
	attempt = 2 * time.Second
	patient = 5 * time.Second
)

// errLoop is the error of resolvers that ask this server.
var errLoop = errors.New("the resolvers ask this server")

// asked is what is asked of another resolver. Two that are equal have the same answer.
type asked struct {
	name                string // in lowercase
	kind                uint16
	signed, unvalidated bool
}

func newAsked(name string, kind uint16, signed, unvalidated bool) asked {
	return asked{strings.ToLower(name), kind, signed, unvalidated}
}

// forwarder asks other resolvers and remembers their answers.
type forwarder struct {
	options Options
	log     *slog.Logger
	cache   *cache
	slots   chan struct{} // has a token for each question at another resolver
	token   string        // the name that only this server asks for
	loop    atomic.Bool   // it was asked for that name
}

func newForwarder(o Options, log *slog.Logger) *forwarder {
	return &forwarder{
		options: o, log: log, cache: newCache(o.CacheSize, o.MaxTTL), slots: make(chan struct{}, o.MaxForwards),
		token: fmt.Sprintf("%016x.%016x.", rand.Uint64(), rand.Uint64()), //nolint:gosec // nobody gains by guessing it
	}
}

// any reports whether there are other resolvers.
func (f *forwarder) any() bool { return len(f.options.Upstreams) > 0 }

// enter takes a slot, if one is free.
func (f *forwarder) enter() bool {
	select {
	case f.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (f *forwarder) leave() { <-f.slots }

// known returns a remembered answer.
func (f *forwarder) known(q asked) (*wire.Msg, bool) { return f.cache.get(q, time.Now()) }

// returned reports whether a question is the one that only this server asks: then its resolvers ask this server.
func (f *forwarder) returned(name string) bool {
	if !strings.EqualFold(name, f.token) {
		return false
	}
	if !f.loop.Swap(true) {
		f.log.Error("questions about names outside of the cluster are not answered", "error", errLoop)
	}
	return true
}

// probe asks for the name that only this server asks for.
func (f *forwarder) probe(ctx context.Context) {
	_, _ = f.exchange(ctx, asked{name: f.token, kind: wire.TypeHINFO}) // what matters is whether it comes back
}

// exchange asks the resolvers, one after the other.
func (f *forwarder) exchange(ctx context.Context, q asked) (*wire.Msg, error) {
	if f.loop.Load() {
		return nil, errLoop
	}
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	err := errors.New("there are no other resolvers")
	var last *wire.Msg
	for _, at := range f.options.Upstreams {
		var answer *wire.Msg
		if answer, err = f.ask(ctx, at.String(), q); err != nil {
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if answer.Rcode == wire.RcodeSuccess || answer.Rcode == wire.RcodeNameError {
			f.cache.put(q, answer, time.Now())
			return answer, nil
		}
		last = answer // another one may know better
	}
	if last != nil {
		return last, nil
	}
	return nil, err
}

// ask asks one resolver.
func (f *forwarder) ask(ctx context.Context, at string, q asked) (*wire.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	query := new(wire.Msg).SetQuestion(q.name, q.kind)
	query.CheckingDisabled = q.unvalidated
	query.SetEdns0(largest, q.signed)
	answer, err := f.over(ctx, "udp", at, query)
	if err == nil && answer.Truncated {
		return f.over(ctx, "tcp", at, query)
	}
	return answer, err
}

// over asks one resolver over a network. Packets that do not answer the question are ignored.
func (f *forwarder) over(ctx context.Context, network, at string, query *wire.Msg) (*wire.Msg, error) {
	conn, err := f.options.Dial(ctx, network, at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	packed, err := query.Pack()
	if err != nil {
		return nil, err
	}
	if network == "udp" {
		_, err = conn.Write(packed)
	} else {
		_, err = conn.Write(framed(packed))
	}
	if err != nil {
		return nil, err
	}
	for range 100 {
		answer, err := read(conn, network)
		if err != nil {
			return nil, err
		}
		if answer.Response && answer.Id == query.Id && len(answer.Question) == 1 &&
			strings.EqualFold(answer.Question[0].Name, query.Question[0].Name) && answer.Question[0].Qtype == query.Question[0].Qtype {
			return answer, nil
		}
	}
	return nil, errors.New("only answers to other questions came")
}

// read reads a message; an empty one if it is malformed.
func read(conn net.Conn, network string) (*wire.Msg, error) {
	var packed []byte
	if network == "tcp" {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return nil, err
		}
		packed = make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, packed); err != nil {
			return nil, err
		}
	} else {
		packed = make([]byte, maxPacket)
		n, err := conn.Read(packed)
		if err != nil {
			return nil, err
		}
		packed = packed[:n]
	}
	answer := new(wire.Msg)
	if malformed := answer.Unpack(packed); malformed != nil {
		return new(wire.Msg), nil //nolint:nilerr // another message may come
	}
	return answer, nil
}
