package tokenfile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/keelson-dev/keelson/authn"
)

// ErrMalformed: the file is not a token file.
var ErrMalformed = errors.New("malformed token file")

// Parse reads a token file and returns its users by token. As in upstream, a record with an empty token is skipped and
// the last of several records of a token counts; both are logged to log, which may be nil. Columns after the fourth are
// ignored.
func Parse(r io.Reader, log *slog.Logger) (map[string]*authn.Identity, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = -1
	tokens := map[string]*authn.Identity{}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return tokens, nil
		}
		if syntax := (*csv.ParseError)(nil); errors.As(err, &syntax) {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("%w: line %d must have at least 3 columns (token, user name, user uid), found %d", ErrMalformed, line, len(record))
		}
		if record[0] == "" {
			log.Warn("empty token in token file", "line", line)
			continue
		}
		if _, twice := tokens[record[0]]; twice {
			log.Warn("duplicate token in token file", "line", line)
		}
		tokens[record[0]] = identity(record)
	}
}

func identity(record []string) *authn.Identity {
	id := &authn.Identity{Name: record[1], UID: record[2]}
	if len(record) > 3 && record[3] != "" {
		id.Groups = strings.Split(record[3], ",")
	}
	return id
}
