package credentials

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// entry is the entry of one registry in a docker configuration.
type entry struct{ username, password string }

// wireEntry is an encoded entry. Auth is username:password in base64 and takes precedence over the other two.
type wireEntry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"`
}

// parseConfig reads a docker configuration (config.json).
func parseConfig(data []byte) (map[string]entry, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var config struct {
		Auths map[string]wireEntry `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil {
		return nil, ErrInvalid // the cause may quote secrets
	}
	return decode(config.Auths)
}

// parseLegacy reads a docker configuration in the old format (.dockercfg), which has only entries.
func parseLegacy(data []byte) (map[string]entry, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var auths map[string]wireEntry
	if json.Unmarshal(data, &auths) != nil {
		return nil, ErrInvalid
	}
	return decode(auths)
}

func decode(auths map[string]wireEntry) (map[string]entry, error) {
	out := make(map[string]entry, len(auths))
	for location, w := range auths {
		e := entry{w.Username, w.Password}
		if w.Auth != "" {
			var ok bool
			if e, ok = decodeAuth(w.Auth); !ok {
				return nil, ErrInvalid
			}
		}
		out[location] = e
	}
	return out, nil
}

func decodeAuth(auth string) (entry, bool) {
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(strings.TrimSpace(auth), "=") {
		encoding = base64.StdEncoding
	}
	decoded, err := encoding.DecodeString(auth)
	if err != nil {
		return entry{}, false
	}
	username, password, ok := strings.Cut(string(decoded), ":")
	return entry{username, password}, ok
}
