package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// maxPacket is the size of the largest question that is read: more than 512 bytes are extensions that nobody sends.
const maxPacket = 4096

// servePackets answers the packets of a socket. Questions that another resolver has to answer do not delay others.
func (s *Server) servePackets(ctx context.Context, socket net.PacketConn) error {
	defer func() { _ = socket.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	failed := make(chan error, readers())
	for range readers() {
		wg.Go(func() { failed <- s.readPackets(ctx, socket, &wg) })
	}
	err := <-failed
	_ = socket.SetReadDeadline(time.Unix(1, 0)) // ends the others
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readPackets reads from a socket until that fails.
func (s *Server) readPackets(ctx context.Context, socket net.PacketConn, wg *sync.WaitGroup) error {
	in, out := make([]byte, maxPacket), make([]byte, 0, maxPacket)
	failures := 0
	for {
		n, from, err := socket.ReadFrom(in)
		if err != nil {
			if failures++; failures > 100 || ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return err
			}
			continue // an answer could not be delivered, for example
		}
		failures = 0
		answer, later := s.answer(in[:n], packet, out)
		if later == nil {
			s.send(socket, answer, from)
			continue
		}
		if !s.forward.enter() {
			s.send(socket, later.refuse(), from)
			continue
		}
		wg.Go(func() {
			defer s.forward.leave()
			s.send(socket, later.finish(ctx), from)
		})
	}
}

func (s *Server) send(socket net.PacketConn, answer []byte, to net.Addr) {
	if len(answer) == 0 {
		return
	}
	if _, err := socket.WriteTo(answer, to); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Debug("an answer could not be sent", "to", to, "error", err)
	}
}

// idle is how long a connection may wait for a question, or for its answer to be read.
const idle = 10 * time.Second

// serveConnections answers what comes by the connections of a listener.
func (s *Server) serveConnections(ctx context.Context, listener net.Listener) error {
	defer func() { _ = listener.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case s.connections <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := listener.Accept()
		if err != nil {
			<-s.connections
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		wg.Go(func() {
			defer func() { <-s.connections }()
			s.serveConnection(ctx, conn)
		})
	}
}

// serveConnection answers the questions of one connection, one after the other.
func (s *Server) serveConnection(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for {
		if err := conn.SetDeadline(time.Now().Add(idle)); err != nil {
			return
		}
		query, err := readFramed(conn)
		if err != nil {
			return
		}
		answer := s.exchange(ctx, query, stream)
		if len(answer) == 0 {
			return
		}
		if _, err := conn.Write(framed(answer)); err != nil {
			return
		}
	}
}

// readFramed reads a message that its length precedes.
func readFramed(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(length[:])
	if n > maxPacket {
		return nil, errors.New("the question is too long")
	}
	message := make([]byte, n)
	_, err := io.ReadFull(r, message)
	return message, err
}

func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...) //nolint:gosec // bounded when packed
}

// exchange answers a question, waiting for other resolvers.
func (s *Server) exchange(ctx context.Context, query []byte, by transport) []byte {
	answer, later := s.answer(query, by, nil)
	if later == nil {
		return answer
	}
	if !s.forward.enter() {
		return later.refuse()
	}
	defer s.forward.leave()
	return later.finish(ctx)
}
