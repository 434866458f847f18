package basic

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/keelson-dev/keelson/authn"
)

// ErrMalformed: the file is not a password file.
var ErrMalformed = errors.New("malformed password file")

// Parse reads a password file. As in upstream, the last of several records of a user counts, with a warning to log if
// that is not nil, and columns after the fourth are ignored. A record without a password or without a name is refused:
// it would let anybody in.
func Parse(r io.Reader, log *slog.Logger) (Users, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = -1
	users := Users{}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return users, nil
		}
		if syntax := (*csv.ParseError)(nil); errors.As(err, &syntax) {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("%w: line %d must have at least 3 columns (password, user name, user uid), found %d", ErrMalformed, line, len(record))
		}
		switch {
		case record[0] == "":
			return nil, fmt.Errorf("%w: line %d has an empty password", ErrMalformed, line)
		case record[1] == "":
			return nil, fmt.Errorf("%w: line %d has an empty user name", ErrMalformed, line)
		}
		if _, twice := users[record[1]]; twice {
			log.Warn("duplicate user in password file", "line", line, "user", record[1])
		}
		users[record[1]] = NewUser(identity(record), record[0])
	}
}

func identity(record []string) *authn.Identity {
	id := &authn.Identity{Name: record[1], UID: record[2]}
	if len(record) > 3 && record[3] != "" {
		id.Groups = strings.Split(record[3], ",")
	}
	return id
}
