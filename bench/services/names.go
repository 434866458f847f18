package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// question is a packet that asks for the IPv4 addresses of a service.
func question(id uint16, service int) []byte {
	q := binary.BigEndian.AppendUint16(nil, id)
	q = append(q, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion is desired, one question
	for label := range strings.SplitSeq(serviceName(service)+"."+namespace+".svc.cluster.local", ".") {
		q = append(append(q, byte(len(label))), label...) //nolint:gosec // short
	}
	return append(q, 0, 0, 1, 0, 1)
}

// asker asks one question after the other.
type asker struct {
	net.Conn
	buf [4096]byte
}

func newAsker() (*asker, error) {
	c, err := net.Dial("udp", "127.0.0.1:5300") //nolint:noctx // it sends nothing
	return &asker{Conn: c}, err
}

// ask reports whether the answer has the one address of the service.
func (a *asker) ask(service int, want []byte) (bool, error) {
	id := uint16(rand.Uint32()) //nolint:gosec // on purpose
	if err := a.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false, err
	}
	if _, err := a.Write(question(id, service)); err != nil {
		return false, err
	}
	n, err := a.Read(a.buf[:])
	if err != nil {
		return false, err
	}
	got := a.buf[:n]
	if n < 12 || binary.BigEndian.Uint16(got) != id {
		return false, errors.New("an answer to something else")
	}
	return binary.BigEndian.Uint16(got[6:]) == 1 && strings.Contains(string(got[12:]), string(want)), nil
}

// names measures one server of names.
func (s *site) names(ctx context.Context, command []string, all *table, side int) (err error) {
	p, err := s.start(ctx, command)
	if err != nil {
		return err
	}
	defer func() { err = p.explain(err); p.stop() }()
	if err := s.answering(ctx); err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	const askers = 8
	before, err := p.cpu()
	if err != nil {
		return err
	}
	took, err := s.ask(askers)
	if err != nil {
		return err
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	all.add("dns-cpu", "CPU of the DNS server to answer a question about one of the services", "µs", side, float64((after-before).Microseconds())/float64(len(took)))
	slices.Sort(took)
	all.add("dns-p99", fmt.Sprintf("answer of the DNS server, %d questions at a time, p99", askers), "ms", side, float64(took[len(took)*99/100].Microseconds())/1000)
	mb, err := p.memory()
	if err != nil {
		return err
	}
	all.add("dns-memory", fmt.Sprintf("memory of the DNS server with %d services of two endpoints, after the questions", s.services), "MB", side, mb)
	return nil
}

// answering waits until the server knows some services, of which the last is the last of all.
func (s *site) answering(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for n := range 20 {
		i := (n+1)*s.services/20 - 1
		for {
			a, err := newAsker()
			if err != nil {
				return err
			}
			ok, _ := a.ask(i, s.world.ips[i].AsSlice())
			_ = a.Close()
			if ok {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("names are not answered: %w", ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// ask asks about random services and returns how long each answer took.
func (s *site) ask(askers int) (took []time.Duration, err error) {
	each := make([][]time.Duration, askers)
	errs := make([]error, askers)
	var all sync.WaitGroup
	for n := range askers {
		all.Go(func() {
			a, err := newAsker()
			if err != nil {
				errs[n] = err
				return
			}
			defer func() { _ = a.Close() }()
			for range s.questions / askers {
				i := rand.IntN(s.services)
				began := time.Now()
				ok, err := a.ask(i, s.world.ips[i].AsSlice())
				if err != nil || !ok {
					errs[n] = fmt.Errorf("%s: %v, %w", serviceName(i), ok, errors.Join(err))
					return
				}
				each[n] = append(each[n], time.Since(began))
			}
		})
	}
	all.Wait()
	return slices.Concat(each...), errors.Join(errs...)
}
