//! The opcodes of pickle protocols 0 to 5, as documented in Python's `pickletools`.

use super::{Machine, Node, NodeId, pairs};

/// Longest module or name of a global, in bytes. The memo can offer the same text any number of times, and every global
/// copies it.
const MAX_GLOBAL_BYTES: usize = 1024;

impl Machine<'_> {
    /// Runs the stream to its `STOP` and returns the value left on the stack.
    pub(super) fn run(&mut self) -> Result<NodeId, String> {
        loop {
            self.opcode_at = self.position;
            let [opcode] = self
                .take_array()
                .map_err(|_| "the stream ends without a STOP opcode; the file is truncated")?;
            match opcode {
                b'.' => return self.pop(),
                b'(' => {
                    self.spend()?;
                    self.marks.push(self.stack.len());
                }
                b'0' => {
                    // At a mark, POP removes the mark.
                    if self.stack.len() <= self.floor() && self.marks.pop().is_some() {
                        continue;
                    }
                    self.pop()?;
                }
                b'1' => drop(self.pop_to_mark()?),
                b'2' => {
                    let top = self.top()?;
                    self.push_id(top)?;
                }
                0x80 => {
                    let [protocol] = self.take_array()?;
                    if protocol > 5 {
                        return Err(format!("pickle protocol {protocol} is not known"));
                    }
                }
                0x95 => drop(self.take(8)?),
                b'N' | 0x88 | 0x89 => self.push_constant(opcode)?,
                b'I' | b'J' | b'K' | b'L' | b'M' | 0x8a | 0x8b | b'F' | b'G' => {
                    self.push_number(opcode)?;
                }
                b'S' | b'T' | b'U' | b'V' | b'X' | 0x8c | 0x8d | b'B' | b'C' | 0x8e | 0x96 => {
                    self.push_text(opcode)?;
                }
                b'g' | b'h' | b'j' | b'p' | b'q' | b'r' | 0x94 => self.memo_opcode(opcode)?,
                b'c' | 0x93 | b'R' | b'b' | b'i' | b'o' | 0x81 | 0x92 | b'P' | b'Q' => {
                    self.object_opcode(opcode)?;
                }
                0x82..=0x84 => {
                    return Err("extension-registry codes (EXT) are not supported".into());
                }
                0x97 | 0x98 => return Err("out-of-band buffers are not supported".into()),
                _ => self.container_opcode(opcode)?,
            }
        }
    }

    fn push_constant(&mut self, opcode: u8) -> Result<(), String> {
        self.push(match opcode {
            0x88 => Node::Bool(true),
            0x89 => Node::Bool(false),
            _ => Node::None,
        })
    }

    fn push_number(&mut self, opcode: u8) -> Result<(), String> {
        let node = match opcode {
            b'I' => match self.take_line()? {
                "00" => Node::Bool(false),
                "01" => Node::Bool(true),
                line => Node::Int(decimal(line)?),
            },
            b'L' => {
                let line = self.take_line()?;
                Node::Int(decimal(line.strip_suffix('L').unwrap_or(line))?)
            }
            b'J' => Node::Int(i32::from_le_bytes(self.take_array()?).into()),
            b'K' => Node::Int(u8::from_le_bytes(self.take_array()?).into()),
            b'M' => Node::Int(u16::from_le_bytes(self.take_array()?).into()),
            0x8a => long(self.take_sized(1)?),
            0x8b => long(self.take_sized(4)?),
            b'F' => Node::Float(
                self.take_line()?
                    .parse()
                    .map_err(|_| "a float is malformed")?,
            ),
            _ => Node::Float(f64::from_be_bytes(self.take_array()?)),
        };
        self.push(node)
    }

    fn push_text(&mut self, opcode: u8) -> Result<(), String> {
        let node = match opcode {
            // Protocol 0: text as Python source. Escapes stay as they are, names in checkpoints have none.
            b'S' => {
                let line = self.take_line()?;
                let quoted = |quote| line.strip_prefix(quote)?.strip_suffix(quote);
                let text = quoted('\'').or_else(|| quoted('"'));
                Node::Str(text.ok_or("a string is not quoted")?.to_string())
            }
            b'V' => Node::Str(self.take_line()?.to_string()),
            // Python 2 strings: text if they are UTF-8, bytes otherwise.
            b'T' => text_or_bytes(self.take_sized(4)?),
            b'U' => text_or_bytes(self.take_sized(1)?),
            b'X' => text(self.take_sized(4)?)?,
            0x8c => text(self.take_sized(1)?)?,
            0x8d => text(self.take_sized(8)?)?,
            b'B' => Node::Bytes(self.take_sized(4)?.to_vec()),
            b'C' => Node::Bytes(self.take_sized(1)?.to_vec()),
            _ => Node::Bytes(self.take_sized(8)?.to_vec()),
        };
        self.push(node)
    }

    fn memo_opcode(&mut self, opcode: u8) -> Result<(), String> {
        let key = match opcode {
            b'g' | b'p' => self
                .take_line()?
                .parse()
                .map_err(|_| "a memo index is malformed")?,
            b'h' | b'q' => u8::from_le_bytes(self.take_array()?).into(),
            b'j' | b'r' => u32::from_le_bytes(self.take_array()?),
            _ => u32::try_from(self.memo.len()).map_err(|_| "the memo is full")?,
        };
        match opcode {
            b'g' | b'h' | b'j' => self.load(key),
            _ => self.store(key),
        }
    }

    fn container_opcode(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            b']' => self.push(Node::List(Vec::new())),
            b')' => self.push(Node::Tuple(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            0x8f => self.push(Node::Set(Vec::new())),
            b'l' => {
                let elements = self.pop_to_mark()?;
                self.push(Node::List(elements))
            }
            b't' => {
                let elements = self.pop_to_mark()?;
                self.push(Node::Tuple(elements))
            }
            b'd' => {
                let items = pairs(&self.pop_to_mark()?)?;
                self.push(Node::Dict(items))
            }
            0x91 => {
                let elements = self.pop_to_mark()?;
                self.push(Node::Set(elements))
            }
            0x85..=0x87 => {
                let mut elements = Vec::new();
                for _ in 0x84..opcode {
                    elements.push(self.pop()?);
                }
                elements.reverse();
                self.push(Node::Tuple(elements))
            }
            b'a' => {
                let element = self.pop()?;
                self.append(vec![element])
            }
            b'e' | 0x90 => {
                let elements = self.pop_to_mark()?;
                self.append(elements)
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(vec![key, value])
            }
            b'u' => {
                let flat = self.pop_to_mark()?;
                self.set_items(flat)
            }
            _ => Err(format!("opcode 0x{opcode:02x} is not known")),
        }
    }

    /// Text on the stack that names a global.
    fn global_part(&self, id: NodeId) -> Result<String, String> {
        match self.nodes.get(id.0 as usize) {
            Some(Node::Str(text)) => Ok(bounded(text)?.to_string()),
            _ => Err("a global is named by something that is no text".into()),
        }
    }

    fn object_opcode(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            b'c' => {
                let module = bounded(self.take_line()?)?.to_string();
                let name = bounded(self.take_line()?)?.to_string();
                self.push(Node::Global { module, name })
            }
            0x93 => {
                let name = self.pop()?;
                let module = self.pop()?;
                let module = self.global_part(module)?;
                let name = self.global_part(name)?;
                self.push(Node::Global { module, name })
            }
            b'R' | 0x81 => {
                let args = self.pop()?;
                let callable = self.pop()?;
                self.push_call(callable, args)
            }
            // Keyword arguments become the state: Python passes them to `__new__`, nobody here reads them.
            0x92 => {
                let keywords = self.pop()?;
                let args = self.pop()?;
                let callable = self.pop()?;
                self.push_call(callable, args)?;
                self.set_state(keywords)
            }
            b'b' => {
                let state = self.pop()?;
                self.set_state(state)
            }
            b'i' => {
                let module = bounded(self.take_line()?)?.to_string();
                let name = bounded(self.take_line()?)?.to_string();
                let args = self.pop_to_mark()?;
                self.push(Node::Global { module, name })?;
                let callable = self.pop()?;
                self.push(Node::Tuple(args))?;
                let args = self.pop()?;
                self.push_call(callable, args)
            }
            b'o' => {
                let mut args = self.pop_to_mark()?;
                if args.is_empty() {
                    return Err("an object has no class".into());
                }
                let callable = args.remove(0);
                self.push(Node::Tuple(args))?;
                let args = self.pop()?;
                self.push_call(callable, args)
            }
            b'P' => {
                let line = self.take_line()?.to_string();
                self.push(Node::Str(line))?;
                let id = self.pop()?;
                self.push(Node::Persistent(id))
            }
            _ => {
                let id = self.pop()?;
                self.push(Node::Persistent(id))
            }
        }
    }
}

fn bounded(text: &str) -> Result<&str, String> {
    if text.len() > MAX_GLOBAL_BYTES {
        return Err("the name of a global is too long".into());
    }
    Ok(text)
}

fn text(bytes: &[u8]) -> Result<Node, String> {
    // Python writes lone surrogates as they are ("surrogatepass"); no name in a checkpoint has one.
    std::str::from_utf8(bytes)
        .map(|text| Node::Str(text.to_string()))
        .map_err(|_| "text is not UTF-8".into())
}

fn text_or_bytes(bytes: &[u8]) -> Node {
    text(bytes).unwrap_or_else(|_| Node::Bytes(bytes.to_vec()))
}

fn decimal(text: &str) -> Result<i64, String> {
    text.trim()
        .parse()
        .map_err(|_| "an integer is malformed or over 64 bits".into())
}

fn long(bytes: &[u8]) -> Node {
    if bytes.len() > 8 {
        return Node::Long(bytes.to_vec());
    }
    let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    Node::Int(i64::from_le_bytes(wide))
}
